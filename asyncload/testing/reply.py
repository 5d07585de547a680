"""What the server is about to send, written down so that a fault can spoil any part of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from http.client import responses

__all__ = ["End", "Reply"]


class End(Enum):
    """What becomes of the connection once the reply is sent."""

    KEEP = auto()
    """It is kept for the next request."""
    CLOSE = auto()
    """It is closed in good order (FIN)."""
    RESET = auto()
    """It is torn down (RST)."""
    STALL = auto()
    """It stays open and silent, the request unfinished, until the client or the server closes it."""
    HANG_UP = auto()
    """It stays open until the next request arrives on it, and is closed instead of an answer."""


@dataclass(slots=True)
class Reply:
    """One answer, as it will go over the wire.

    ``status_line`` and ``headers`` make the head, and an empty ``status_line`` sends none; ``headers`` are sent as they
    are, so nothing keeps ``Content-Length`` right but :meth:`set_body`. ``pause`` is the time in seconds before the
    first byte. ``body`` goes out at ``rate`` bytes a second (None: at once), then ``tail``, which may be endless.

    ``path`` is the path that is being answered, and ``rest`` the one behind the fault that is being applied: for
    ``/fault/stall/photo/00017.jpg`` it is ``/photo/00017.jpg``.
    """

    path: str
    rest: str = ""
    status_line: str = "HTTP/1.1 200 OK"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    tail: Iterable[bytes] = ()
    pause: float = 0.0
    rate: float | None = None
    end: End = End.KEEP

    def set_body(self, body: bytes, content_type: str | None = None) -> None:
        """Replace the body, and the two headers that describe it; without ``content_type`` the type stays."""
        self.body = body
        self.headers["Content-Length"] = str(len(body))
        if content_type is not None:
            self.headers["Content-Type"] = content_type

    def set_status(self, code: int, text: str = "") -> None:
        """Answer with ``code``, and with ``text`` or else the usual phrase as the body where one is allowed."""
        phrase = responses.get(code, "Unknown")
        self.status_line = f"HTTP/1.1 {code} {phrase}"
        self.headers = {}
        self.body = b""
        if code >= 200 and code not in (204, 304):
            self.set_body(f"{text or phrase}\n".encode(), "text/plain; charset=utf-8")

    def send_nothing(self) -> None:
        """Neither a head nor a body."""
        self.status_line, self.headers, self.body = "", {}, b""

    def head(self) -> bytes:
        """The status line and headers in bytes; empty if there is no status line."""
        if not self.status_line:
            return b""
        fields = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        return f"{self.status_line}\r\n{fields}\r\n".encode()

    def pieces(self) -> Iterator[bytes]:
        """The body, in the pieces in which it is written."""
        # A twentieth of a second's worth: smooth enough, and few enough wake-ups.
        step = len(self.body) if self.rate is None else max(1, int(self.rate / 20))
        for start in range(0, len(self.body), step or 1):
            yield self.body[start : start + step]
        yield from self.tail
