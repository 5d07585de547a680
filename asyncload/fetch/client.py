"""One attempt: the request, its redirects, and the answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
from aiohttp import hdrs
from yarl import URL

from asyncload.errors import BlockedError, FetchError, FetchTimeout, HTTPStatusError, PayloadError
from asyncload.fetch.body import BodyReader
from asyncload.fetch.foreign import FOREIGN, to_fetch_error
from asyncload.fetch.guard import Guard, requested_host
from asyncload.fetch.hosts import Places
from asyncload.fetch.job import Buffer, Job
from asyncload.fetch.resolver import Resolver
from asyncload.fetch.retry import MAX_RETRY_AFTER, RETRYABLE_STATUSES, retry_after
from asyncload.fetch.settings import Http
from asyncload.fetch.urls import redirect_target

__all__ = ["Client"]

_READ_BUFFER = 128 * 1024  # bytes; aiohttp holds up to twice that for each connection. 64 KiB costs 12 % more CPU
_REDIRECTS = frozenset([301, 302, 303, 307, 308])
_NO_CONTENT = frozenset([204, 205])


class Client:
    """One aiohttp session, opened in the loop that uses it, and the places of its requests."""

    def __init__(self, http: Http, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]]) -> None:
        self._http = http
        self._clock = clock
        self._bodies = BodyReader(http, clock)
        self._timeout = self._timeout_of(http.timeout)
        self._reading: set[aiohttp.ClientResponse] = set()
        self.places = Places(http.connections, http.per_host, clock, sleep)
        self.requests = 0
        self.received = 0  # bytes of bodies

    async def open(self) -> None:
        self._resolver = Resolver()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # Places bounds them: a queue in the connector would be taken for a slow server
                resolver=self._resolver,
                ttl_dns_cache=300,
                socket_factory=Guard(self._http),
                ssl=self._http.verify,
                enable_cleanup_closed=getattr(
                    aiohttp.connector, "NEEDS_CLEANUP_CLOSED", False
                ),  # an older Python's leak
            ),
            headers={
                hdrs.USER_AGENT: self._http.user_agent,
                hdrs.ACCEPT: "image/*,*/*;q=0.5",
                hdrs.ACCEPT_ENCODING: "identity",
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=_READ_BUFFER,
        )
        # aiohttp would send a request again by itself when a connection is lost: uncounted, and without a pause.
        self._session._retry_connection = False

    async def close(self) -> None:
        """Close all sockets. What is under way fails, and so does, in its turn, what waits for a place."""
        for response in list(self._reading):  # who reads a body would not be told that its connection is closed
            response.close()
        await self._session.close()
        await self._resolver.close()

    async def attempt(self, job: Job) -> Buffer:
        """Fetch ``job.url`` once, following redirects. Returns the body.

        Raises ``FetchError``.
        """
        url, headers = job.url, job.headers
        left = min(self._http.timeout, self._http.deadline - job.spent)
        for _ in range(self._http.max_redirects + 1):
            host = (url.raw_host or "").lower()
            await self.places.take(host)
            started = self._clock()
            token = requested_host.set(host)
            try:
                result = await self._exchange(job, url, host, headers, left)
            finally:
                requested_host.reset(token)
                self.places.give(host)
                elapsed = self._clock() - started
                job.spent += elapsed
            if not isinstance(result, str):
                return result
            target = redirect_target(url, result)
            if target.origin() != url.origin():
                headers = None
            url = target
            left -= elapsed
            if left <= 0:
                raise FetchTimeout(f"{host}: not finished within timeout", reason="timeout")
        raise BlockedError(
            f"{host}: more than max_redirects={self._http.max_redirects} redirects", reason="too_many_redirects"
        )

    async def _exchange(
        self, job: Job, url: URL, host: str, headers: Mapping[str, str] | None, seconds: float
    ) -> Buffer | str:
        """One request. Returns the body, or where it is redirected to."""
        job.status = None
        job.received = 0
        job.asked_pause = 0.0
        self.requests += 1
        timeout = self._timeout if seconds == self._http.timeout else self._timeout_of(seconds)
        try:
            response = await self._session.get(url, headers=headers, allow_redirects=False, timeout=timeout)
        except FOREIGN as error:
            raise to_fetch_error(error, host, answered=False) from None
        job.status = status = response.status
        if status != 200:
            response.release()  # keeps the connection if the answer has been received whole
            if status in _REDIRECTS and (location := response.headers.get(hdrs.LOCATION)):
                return location
            raise self._refusal(response, host, job)
        self._reading.add(response)
        try:
            return await self._bodies.read(response, host, job)
        except BaseException:
            response.close()
            raise
        finally:
            self._reading.discard(response)
            self.received += job.received

    def _refusal(self, response: aiohttp.ClientResponse, host: str, job: Job) -> FetchError:
        status = response.status
        if status in _NO_CONTENT:
            return PayloadError(f"{host}: expected an image, got status {status}, no content", reason="empty")
        if status in RETRYABLE_STATUSES and (text := response.headers.get(hdrs.RETRY_AFTER)):
            pause = retry_after(text, time.time())
            if pause is not None:
                job.asked_pause = pause
                if pause <= MAX_RETRY_AFTER:
                    self.places.not_before(host, pause)
        return HTTPStatusError(f"{host}: expected status 200, got {status}", reason="http_status")

    def _timeout_of(self, seconds: float) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(
            total=seconds, sock_connect=self._http.connect_timeout, sock_read=self._http.read_timeout
        )
