"""What the server saw: who connected, what was asked for, how much of it at once."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import NamedTuple

__all__ = ["Request", "Traffic"]

_KEPT = 10_000


class Request(NamedTuple):
    """One request as it arrived.

    ``path`` is what the request line asked for, query included, percent-decoded; ``connection`` counts connections from
    1, so equal numbers mean a connection that was used again; ``time`` is ``time.monotonic()`` in seconds; ``head`` is
    the request line and the headers as they came.
    """

    method: str
    path: str
    connection: int
    time: float
    head: bytes

    @property
    def headers(self) -> dict[str, str]:
        """The headers, their names in lower case; the last of those with the same name."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


class Traffic:
    """Counters that the server's thread writes and any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = 0
        self._open = 0
        self._in_progress = 0
        self.reset()

    def reset(self) -> None:
        """Forget what was; a connection that is open or a request in progress still counts towards the peaks."""
        with self._lock:
            self._counts: Counter[str] = Counter()
            self._requests: deque[Request] = deque(maxlen=_KEPT)
            self._connections = 0
            self._peak_open = self._open
            self._peak_in_progress = self._in_progress

    def opened(self) -> int:
        """A connection was accepted; its number is returned."""
        with self._lock:
            self._opened += 1
            self._connections += 1
            self._open += 1
            self._peak_open = max(self._peak_open, self._open)
            return self._opened

    def closed(self) -> None:
        with self._lock:
            self._open -= 1

    def arrived(self, method: str, path: str, connection: int, head: bytes) -> int:
        """A request arrived; how many have for its path, this one included, is returned."""
        with self._lock:
            self._requests.append(Request(method, path, connection, time.monotonic(), head))
            self._counts[path] += 1
            self._in_progress += 1
            self._peak_in_progress = max(self._peak_in_progress, self._in_progress)
            return self._counts[path]

    def finished(self) -> None:
        with self._lock:
            self._in_progress -= 1

    @property
    def requests(self) -> list[Request]:
        with self._lock:
            return list(self._requests)

    def count(self, path: str | None) -> int:
        with self._lock:
            return self._counts.total() if path is None else self._counts[path]

    @property
    def connections(self) -> int:
        with self._lock:
            return self._connections

    @property
    def peak_connections(self) -> int:
        with self._lock:
            return self._peak_open

    @property
    def peak_concurrent(self) -> int:
        with self._lock:
            return self._peak_in_progress
