"""Anonymous shared memory, and the arena that downloaded bodies live in.

Nothing here has a name in the file system, so there is nothing to leave behind, whoever is killed.
"""

from __future__ import annotations

import mmap
import os
import socket
import sys
import tempfile
from array import array
from bisect import bisect_left

__all__ = ["Arena", "Block", "Segment", "receive", "send"]

PAGE = 4096

if sys.platform == "linux":
    import fcntl

    def _anonymous_file(nbytes: int) -> int:
        fd = os.memfd_create("asyncload", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, nbytes)
            # Whoever receives the descriptor cannot shrink the file under the other side's mapping (a SIGBUS there).
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _is_stable(fd: int) -> bool:
        return bool(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)

else:

    def _anonymous_file(nbytes: int) -> int:
        with tempfile.TemporaryFile() as file:  # unlinked from the start
            os.ftruncate(file.fileno(), nbytes)
            return os.dup(file.fileno())

    def _is_stable(fd: int) -> bool:
        return True  # no seals to ask for


class Segment:
    """``nbytes`` of anonymous memory, mapped here and, through :attr:`fd`, in whoever receives it.

    ``buffer`` outlives :meth:`close` for as long as an array over it does; its pages go back with the last mapping.
    Raises ``OSError`` where the system has no memory or descriptors left.
    """

    __slots__ = ("buffer", "fd", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = max(nbytes, 1)
        self.fd = _anonymous_file(self.nbytes)
        try:
            self.buffer = mmap.mmap(self.fd, self.nbytes)
        except BaseException:
            os.close(self.fd)
            raise

    @classmethod
    def received(cls, fd: int) -> Segment:
        """The other side's segment. Takes the descriptor over. Raises ``ValueError`` if it could shrink later."""
        segment = cls.__new__(cls)
        segment.fd = fd
        try:
            if not _is_stable(fd):
                raise ValueError("received memory is not sealed against shrinking")
            segment.nbytes = os.fstat(fd).st_size
            segment.buffer = mmap.mmap(fd, segment.nbytes)
        except BaseException:
            os.close(fd)
            raise
        return segment

    def close(self) -> None:
        """Give up the descriptor and our reference to the mapping. May be called twice.

        The mapping itself is not closed: numpy keeps a reference to it, but does not lock it, and an array over a
        closed mapping would read from nowhere. It goes with whatever refers to it last.
        """
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            del self.buffer


class Block:
    """A piece of an :class:`Arena`, or a segment of its own, that holds one downloaded body."""

    __slots__ = ("_arena", "nbytes", "offset", "segment", "view")

    def __init__(self, segment: Segment, offset: int, nbytes: int, arena: Arena | None) -> None:
        self.segment = segment
        self.offset = offset
        self.nbytes = nbytes
        self.view = memoryview(segment.buffer)[offset : offset + nbytes]
        self._arena = arena

    @property
    def is_private(self) -> bool:
        """Whether the body has a segment of its own, which a worker must be sent first."""
        return self._arena is None

    def release(self) -> None:
        """Give the memory back. Once."""
        self.view.release()
        if self._arena is None:
            self.segment.close()
        else:
            self._arena._give_back(self.offset, self.nbytes)


class Arena:
    """One segment cut into blocks: first fit over a sorted free list, so that the same low pages stay warm.

    A body that finds no place, or would take more than an eighth of the arena, gets a segment of its own: allocation
    never waits and never fails for want of arena.
    """

    def __init__(self, nbytes: int) -> None:
        self.segment = Segment(nbytes)
        self._starts = [0]
        self._ends = [self.segment.nbytes]

    def allocate(self, nbytes: int) -> Block:
        size = max(-(-nbytes // PAGE) * PAGE, PAGE)
        if size <= self.segment.nbytes // 8:
            for i, start in enumerate(self._starts):
                if self._ends[i] - start >= size:
                    if self._ends[i] - start == size:
                        del self._starts[i], self._ends[i]
                    else:
                        self._starts[i] = start + size
                    return Block(self.segment, start, nbytes, self)
        return Block(Segment(nbytes), 0, nbytes, None)

    def _give_back(self, start: int, nbytes: int) -> None:
        end = start + max(-(-nbytes // PAGE) * PAGE, PAGE)
        i = bisect_left(self._starts, start)
        joins_left = i > 0 and self._ends[i - 1] == start
        joins_right = i < len(self._starts) and self._starts[i] == end
        if joins_left and joins_right:
            self._ends[i - 1] = self._ends[i]
            del self._starts[i], self._ends[i]
        elif joins_left:
            self._ends[i - 1] = end
        elif joins_right:
            self._starts[i] = start
        else:
            self._starts.insert(i, start)
            self._ends.insert(i, end)

    def close(self) -> None:
        self.segment.close()


_FDS_MAX = 64
_ANCILLARY_BYTES = socket.CMSG_SPACE(_FDS_MAX * array("i").itemsize) if hasattr(socket, "CMSG_SPACE") else 0
_CLOSE_ON_EXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # macOS has none


def send(sock: socket.socket, data: bytes, fds: tuple[int, ...] = ()) -> None:
    """Send all of ``data``, with ``fds`` attached. On a non-blocking socket raises ``BlockingIOError`` when full."""
    sent = socket.send_fds(sock, [data], fds) if fds else sock.send(data)
    if sent < len(data):  # a blocking socket that was interrupted, or a full one
        sock.sendall(data[sent:])


def receive(sock: socket.socket, nbytes: int) -> tuple[bytes, list[int]]:
    """Up to ``nbytes``, and the descriptors that came along; ``b""`` at the end of the stream."""
    data, ancillary, _, _ = sock.recvmsg(nbytes, _ANCILLARY_BYTES, _CLOSE_ON_EXEC)
    fds = array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    if not _CLOSE_ON_EXEC:
        for fd in fds:
            os.set_inheritable(fd, False)
    return data, fds.tolist()
