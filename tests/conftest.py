"""What every test is held to: it leaves no thread, child process, descriptor or socket behind."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import psutil
import pytest


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _descriptors() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            pass  # the descriptor of this very listing
    return found


@pytest.fixture(scope="session", autouse=True)
def what_a_process_keeps() -> None:
    """libuv opens a pipe with the first loop of a process, and keeps it."""
    try:
        import uvloop
    except ImportError:
        return
    uvloop.new_event_loop().close()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    if not os.path.isdir("/proc/self/fd"):  # macOS
        yield
        return
    threads, children, descriptors = _threads(), _children(), _descriptors()
    yield
    deadline = time.monotonic() + 2.0  # what is promised for an end without close()
    while True:
        left: list[object] = [*(_threads() - threads), *(_children() - children)]
        left += [f"{fd}: {what}" for fd, what in _descriptors().items() if descriptors.get(fd) != what]
        if not left or time.monotonic() > deadline:
            break
        gc.collect()  # slow once torch is imported, and seldom needed
        time.sleep(0.02)
    assert not left, f"left behind: {left}"
