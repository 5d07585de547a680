"""The answer's body: whether it may be had at all, and its way into the caller's buffer."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
from aiohttp import hdrs

from asyncload.errors import BlockedError, FetchTimeout, PayloadError
from asyncload.fetch.foreign import FOREIGN, to_fetch_error
from asyncload.fetch.job import Buffer, Job
from asyncload.fetch.robots import opted_out
from asyncload.fetch.settings import Http

__all__ = ["BodyReader"]

_X_ROBOTS_TAG = "X-Robots-Tag"
_COMPRESSED = frozenset(["gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"])


class BodyReader:
    """Receives bodies, piece by piece, within the limits of ``http``.

    aiohttp's own ``read()`` knows no largest size, and lifts the limits of its buffers.
    """

    def __init__(self, http: Http, clock: Callable[[], float]) -> None:
        self._http = http
        self._clock = clock
        self._obey_robots = http.respect_robots_tag
        self._agent = http.user_agent.split("/")[0].strip().lower()

    async def read(self, response: aiohttp.ClientResponse, host: str, job: Job) -> Buffer:
        """Read the body of ``response`` from ``host`` into a buffer allocated by ``job``.

        Raises ``PayloadError``, ``BlockedError`` (``robots``) and ``FetchTimeout``; whatever is raised, the connection
        is in the middle of a body and must be closed.
        """
        length = self._announced_length(response, host)
        body = None if length is None else job.allocate(length)
        limit = self._http.max_bytes if length is None else length
        pieces: list[bytes] = []  # of a body of unknown length
        readany = response.content.readany
        end = window_bytes = 0
        window_start = self._clock()
        while True:
            try:
                piece = await readany()
            except FOREIGN as error:
                raise to_fetch_error(error, host, answered=True) from None
            if not piece:
                break
            start, end = end, end + len(piece)
            job.received = end
            if end > limit:
                raise _too_large(host, limit, "more")
            if body is None:
                pieces.append(piece)
            else:
                body[start:end] = piece
            if (seconds := self._clock() - window_start) >= self._http.read_timeout:
                if end - window_bytes < self._http.min_rate * seconds:
                    raise FetchTimeout(
                        f"{host}: expected at least min_rate={self._http.min_rate} bytes/s, got"
                        f" {(end - window_bytes) / seconds:.0f}",
                        reason="too_slow",
                    )
                window_start += seconds
                window_bytes = end
        if end == 0:
            raise PayloadError(f"{host}: expected an image, got an empty body", reason="empty")
        if body is None:
            return _join(pieces, job.allocate(end))
        if end < limit:
            raise PayloadError(f"{host}: expected {limit} bytes, got {end}", reason="truncated")
        return body

    def _announced_length(self, response: aiohttp.ClientResponse, host: str) -> int | None:
        """The length of the body if it is given, after a look at what else the headers say."""
        headers = response.headers
        if _X_ROBOTS_TAG in headers and self._obey_robots and opted_out(headers.getall(_X_ROBOTS_TAG), self._agent):
            raise BlockedError(
                f"{host}: its owner does not want it used (X-Robots-Tag); see Http(respect_robots_tag=...)",
                reason="robots",
            )
        encoding = headers.get(hdrs.CONTENT_ENCODING)
        if encoding and not _COMPRESSED.isdisjoint(name.strip() for name in encoding.lower().split(",")):
            raise PayloadError(f"{host}: asked for the plain body, got it compressed", reason="protocol")
        text = headers.get(hdrs.CONTENT_LENGTH)
        if text is None:
            return None
        length = int(text)  # the parser has let nothing but digits pass
        if length > self._http.max_bytes:
            raise _too_large(host, self._http.max_bytes, text)
        if length == 0:
            raise PayloadError(f"{host}: expected an image, got an empty body", reason="empty")
        return length


def _too_large(host: str, limit: int, got: str) -> PayloadError:
    return PayloadError(f"{host}: expected a body of at most {limit} bytes, got {got}", reason="too_large")


def _join(pieces: list[bytes], body: Buffer) -> Buffer:
    end = 0
    for piece in pieces:
        start, end = end, end + len(piece)
        body[start:end] = piece
    return body
