"""A gate before some paths, so that a test knows what is in flight without sleeping."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType

__all__ = ["Gate"]


class Gate:
    """Holds the requests for some paths until :meth:`release`; made by ``ImageServer.hold``.

    The two ``wait_for`` methods block the calling thread, so a test with an event loop of its own calls them as
    ``await asyncio.to_thread(gate.wait_for_requests, 3)``. Used as a context manager, a gate is released at the end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, covers: Callable[[str], bool]) -> None:
        self._loop = loop
        self._covers = covers
        self._released = asyncio.Event()
        self._changed = threading.Condition()
        self._arrived = 0
        self._disconnected = 0

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let the held requests go on, and later ones pass. Does nothing after the server has closed."""
        try:
            self._loop.call_soon_threadsafe(self._released.set)
        except RuntimeError:  # the loop is closed, and with it every request
            pass

    def wait_for_requests(self, count: int = 1, timeout: float = 10.0) -> None:
        """Block until ``count`` requests in all have arrived. Raises ``TimeoutError`` after ``timeout`` seconds."""
        self._wait("requests", lambda: self._arrived, count, timeout)

    def wait_for_disconnect(self, count: int = 1, timeout: float = 10.0) -> None:
        """Block until ``count`` held requests in all were given up by their clients.

        Raises ``TimeoutError`` after ``timeout`` seconds.
        """
        self._wait("disconnects", lambda: self._disconnected, count, timeout)

    def _wait(self, what: str, seen: Callable[[], int], count: int, timeout: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: seen() >= count, timeout):
                raise TimeoutError(f"Gate: expected {count} {what} within {timeout} s, got {seen()}")

    async def hold(self, path: str) -> None:
        """Wait in the server's loop until a request for ``path`` may go on; at once if it is not one to be held."""
        if not self._covers(path):
            return
        with self._changed:
            self._arrived += 1
            self._changed.notify_all()
        try:
            await self._released.wait()
        except asyncio.CancelledError:
            with self._changed:
                self._disconnected += 1
                self._changed.notify_all()
            raise
