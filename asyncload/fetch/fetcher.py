"""Fetcher: URL to bytes, with as many attempts as it takes."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from types import TracebackType
from typing import NamedTuple

from aiohttp import hdrs

from asyncload.errors import BlockedError, ClosedError, FetchError, FetchTimeout
from asyncload.fetch.client import Client
from asyncload.fetch.files import Files
from asyncload.fetch.job import Buffer, Job
from asyncload.fetch.retry import MAX_RETRY_AFTER, backoff, may_retry
from asyncload.fetch.settings import Http
from asyncload.fetch.urls import is_http, local_path, parse_http

__all__ = ["FetchStats", "Fetched", "Fetcher"]


class Fetched(NamedTuple):
    """A body, and how it was had.

    ``body`` is the very object that ``allocate`` returned, full. ``status`` is 200, or ``None`` for a file.
    ``attempts`` counts tries, each with its redirects; ``retried`` has the reason of each that was repeated.
    ``seconds`` is what the attempts and the pauses between them took, without queueing.
    """

    body: Buffer
    status: int | None
    attempts: int
    seconds: float
    retried: tuple[str, ...]


class FetchStats(NamedTuple):
    """Since the fetcher was opened: ``requests`` sent (redirects included), ``bytes`` of bodies and files received,
    whether they came to be used or not, attempts ``retried`` by reason; and requests under way now (``in_use``)."""

    requests: int
    bytes: int
    retried: Mapping[str, int]
    in_use: int


class Fetcher:
    """Fetches images over http and https, and from files, within the limits of ``http``.

    An async context manager, opened in the event loop that uses it. ``clock`` (seconds, monotonic), ``sleep`` and
    ``rng`` (the jitter of the back-off) are there for tests.
    """

    def __init__(
        self,
        http: Http,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        rng: Random | None = None,
    ) -> None:
        self.http = http
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or Random()
        self._client = Client(http, clock, sleep)
        self._files = Files(http.max_bytes)
        self._headers = dict(http.headers) or None
        self._retried: Counter[str] = Counter()
        self._file_bytes = 0
        self._state = "new"

    async def __aenter__(self) -> Fetcher:
        if self._state != "new":
            raise RuntimeError("Fetcher: expected to be opened once, was opened before")
        await self._client.open()
        self._state = "open"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all sockets. ``fetch`` calls that are under way raise ``ClosedError``. May be called again."""
        if self._state == "open":
            self._state = "closed"
            await self._client.close()
            self._files.close()

    @property
    def stats(self) -> FetchStats:
        """A snapshot."""
        client = self._client
        return FetchStats(
            client.requests, client.received + self._file_bytes, dict(self._retried), client.places.in_use
        )

    async def fetch(self, url: str, *, allocate: Callable[[int], Buffer] = bytearray) -> Fetched:
        """Fetch ``url``: http(s), ``file:``, or a bare path.

        ``allocate(n)`` returns a buffer of exactly ``n`` writable bytes for the body. It is called in this event
        loop, at most once for each attempt, as soon as the length is known; what it raises is raised here. When it is
        called again, or when this raises, the buffer of the attempt that failed is not touched any more.

        Raises ``FetchError``, with the classes and reasons of :mod:`asyncload.errors`, and ``ClosedError`` if the
        fetcher is closed.
        """
        if self._state != "open":
            raise ClosedError(f"Fetcher: expected to be open, is {self._state}; use it inside `async with`")
        if not is_http(url):
            if not self.http.allow_files:
                raise BlockedError(
                    "only http and https are allowed here; Http(allow_files=True) allows local files",
                    reason="blocked_scheme",
                )
            return await self._fetch_file(local_path(url), allocate)
        job = self._job(url, allocate)
        retried: tuple[str, ...] = ()
        while True:
            try:
                body = await self._client.attempt(job)
                return Fetched(body, job.status, len(retried) + 1, job.spent, retried)
            except FetchError as error:
                self._raise_if_closed()
                failure = error
            except asyncio.CancelledError:
                self._raise_if_closed()
                raise
            failure.status = job.status
            pause = max(backoff(job.status, len(retried), self._rng), job.asked_pause)
            again = may_retry(failure, retried, self.http.retries) and job.asked_pause <= MAX_RETRY_AFTER
            if not again or job.spent + pause >= self.http.deadline:
                if again:
                    failure = FetchTimeout(
                        f"not fetched within deadline={self.http.deadline:g} s; at last: {failure}",
                        reason="deadline",
                        status=job.status,
                    )
                break
            retried += (failure.reason,)
            self._retried[failure.reason] += 1
            await self._sleep(pause)
            job.spent += pause
        failure.attempts = len(retried) + 1
        failure.retried = retried
        failure.bytes = job.received
        failure.seconds = job.spent
        try:
            # Neither the frames, which hold pieces of the body, nor aiohttp's exception, which holds the URL.
            failure.__context__ = None
            raise failure.with_traceback(None)
        finally:
            del failure

    def _job(self, url: str, allocate: Callable[[int], Buffer]) -> Job:
        target, headers = parse_http(url), self._headers
        if target.raw_user is not None or target.raw_password is not None:
            # As a header, so that it is dropped with the others when a redirect leads to another origin.
            credentials = f"{target.user or ''}:{target.password or ''}".encode()
            headers = {**self.http.headers, hdrs.AUTHORIZATION: f"Basic {b64encode(credentials).decode()}"}
            target = target.with_user(None)
        return Job(target, headers, allocate)

    async def _fetch_file(self, path: str, allocate: Callable[[int], Buffer]) -> Fetched:
        started = self._clock()
        try:
            data = await self._files.read(path)
        except FetchError as error:
            self._raise_if_closed()
            error.attempts, error.seconds = 1, self._clock() - started
            raise
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        self._file_bytes += len(data)
        body = allocate(len(data))
        body[:] = data
        return Fetched(body, None, 1, self._clock() - started, ())

    def _raise_if_closed(self) -> None:
        # Closing makes connections fail, and cancels look-ups and reads whose callers were not cancelled themselves.
        task = asyncio.current_task()
        if self._state != "open" and not (task and task.cancelling()):
            raise ClosedError("the fetcher was closed during this fetch") from None
