from __future__ import annotations

import itertools
import os
import socket
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncload.pool.memory import PAGE, Arena, Segment, receive, send


def test_a_segment_is_shared_through_its_descriptor() -> None:
    a, b = socket.socketpair()
    ours = Segment(10_000)
    with a, b:
        send(a, b"here", (ours.fd,))
        data, fds = receive(b, 100)
    assert data == b"here"
    theirs = Segment.received(fds[0])
    ours.buffer[:5] = b"hello"
    assert theirs.buffer[:5] == b"hello"
    assert theirs.nbytes == 10_000
    ours.close()
    theirs.close()
    theirs.close()


def test_the_end_of_the_stream_is_empty() -> None:
    a, b = socket.socketpair()
    with b:
        a.close()
        assert receive(b, 100) == (b"", [])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can seal memory")
def test_memory_that_could_shrink_is_refused() -> None:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 100)
    with pytest.raises(ValueError, match="not sealed"):
        Segment.received(fd)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can seal memory")
def test_a_receiver_cannot_shrink_it() -> None:
    segment = Segment(8192)
    with pytest.raises(PermissionError):
        os.ftruncate(segment.fd, 0)
    segment.close()


def test_an_array_outlives_its_segment() -> None:
    segment = Segment(100)
    array = np.ndarray((100,), np.uint8, buffer=segment.buffer)
    array[:] = 7
    segment.close()
    assert (array == 7).all()


def test_blocks_do_not_overlap_and_their_memory_comes_back() -> None:
    arena = Arena(64 * PAGE)
    blocks = [arena.allocate(nbytes) for nbytes in (1, PAGE, PAGE + 1, 3 * PAGE)]
    ranges = sorted((block.offset, block.offset + block.nbytes) for block in blocks)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    for block in blocks:
        block.release()
    assert (arena._starts, arena._ends) == ([0], [64 * PAGE])
    arena.close()


def test_what_does_not_fit_gets_memory_of_its_own() -> None:
    arena = Arena(16 * PAGE)
    large = arena.allocate(3 * PAGE)
    assert large.is_private
    small = [arena.allocate(2 * PAGE) for _ in range(9)]
    assert [block.is_private for block in small] == [False] * 8 + [True]
    for block in [large, *small]:
        block.view[:] = bytes([7]) * block.nbytes
        block.release()
    arena.close()


@given(st.lists(st.tuples(st.integers(0, 5 * PAGE), st.integers(0, 10)), max_size=60))
def test_the_arena_keeps_its_books(requests: list[tuple[int, int]]) -> None:
    """Blocks never share a byte, whatever is released when; in the end everything is one free piece again."""
    arena = Arena(40 * PAGE)
    held = []
    for nbytes, number in requests:
        if held and number % 2:
            held.pop(number % len(held)).release()
        held.append(arena.allocate(nbytes))
        taken = sorted((b.offset, b.offset + max(b.nbytes, 1)) for b in held if not b.is_private)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(taken))
    for block in held:
        block.release()
    assert (arena._starts, arena._ends) == ([0], [40 * PAGE])
    arena.close()
