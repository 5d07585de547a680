"""Several attempts: how many the server sees, how long the pauses are, and when it is enough."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
from scripted_server import BODY, Script, Server, Time, deaf, raw, reply

from asyncload.errors import ConnectError, FetchError, FetchTimeout, HTTPStatusError
from asyncload.fetch import Fetcher

Opened = Callable[..., Awaitable[Fetcher]]

CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"


async def _fails(fetcher: Fetcher, url: str, **options: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(url, **options)
    assert fetcher.stats.in_use == 0
    return caught.value


@pytest.mark.parametrize(
    ("script", "reason", "attempts"),
    [
        *[(reply(b"", status), "http_status", 4) for status in (408, 425, 429, 500, 502, 503, 504, 520, 522, 524)],
        (raw(), "connect", 4),
        (raw(end="reset"), "connect", 4),
        (raw(b"HTTP/1.1 200 OK\r\nConte"), "connect", 4),
        (raw(CUT), "truncated", 4),
        (raw(CUT, end="reset", gap=0.01), "truncated", 4),
        (raw(CHUNK), "truncated", 4),
        (raw(CHUNK, end="reset", gap=0.01), "truncated", 4),
        (reply(b""), "empty", 2),
        (raw(b"HTTP/1.1 200 OK\r\n\r\n"), "empty", 2),
        (reply(b"", 204), "empty", 2),
    ],
)
async def test_what_passes_is_tried_again(
    opened: Opened, server: Server, script: Script, reason: str, attempts: int
) -> None:
    fetcher, url = await opened(), server.on("/", script)
    error = await _fails(fetcher, url)
    assert (error.reason, error.attempts) == (reason, attempts)
    assert server.count("/") == attempts
    assert fetcher.stats.requests == attempts
    assert fetcher.stats.retried == {reason: attempts - 1}
    assert error.__context__ is None

    server.on("/", script, reply())
    fetched = await fetcher.fetch(url)
    assert (fetched.body, fetched.attempts, fetched.retried) == (BODY, 2, (reason,))


@pytest.mark.parametrize(
    ("script", "reason", "settings", "attempts"),
    [
        (raw(end="hang"), "read_timeout", {"read_timeout": 0.1, "retries": 1}, 2),
        (raw(CUT, end="hang"), "read_timeout", {"read_timeout": 0.1, "retries": 1}, 2),
        (raw(end="hang"), "timeout", {"timeout": 0.1, "retries": 1}, 2),
        (raw(CUT, *[b"a"] * 6, end="hang", gap=0.03), "too_slow", {"read_timeout": 0.15}, 2),
    ],
)
async def test_the_slow_are_tried_again(
    opened: Opened, server: Server, script: Script, reason: str, settings: dict[str, Any], attempts: int
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    fetcher = await opened(real=True, **settings)
    fetcher._sleep = sleep
    error = await _fails(fetcher, server.on("/", script))
    assert (error.reason, error.attempts, server.count("/")) == (reason, attempts, attempts)
    assert len(slept) == attempts - 1


async def test_several_reasons_are_told_apart(opened: Opened, server: Server) -> None:
    url = server.on("/", reply(b"", 503), raw(CUT), raw(end="reset"), reply())
    fetched = await (await opened()).fetch(url)
    assert fetched.retried == ("http_status", "truncated", "connect")
    assert (fetched.attempts, fetched.body) == (4, BODY)


async def test_the_failure_says_what_was_last(opened: Opened, server: Server, virtual: Time) -> None:
    error = await _fails(await opened(), server.on("/", reply(b"", 500), raw(CUT)))
    assert (error.status, error.bytes, error.attempts) == (200, 3, 4)
    assert error.seconds == sum(virtual.slept) > 0
    error = await _fails(await opened(retries=1), server.on("/", raw(CUT), raw()))
    assert (error.status, error.bytes, error.attempts) == (None, 0, 2)


async def test_each_attempt_has_a_buffer_of_its_own(opened: Opened, server: Server) -> None:
    lent: list[bytearray] = []

    def allocate(size: int) -> bytearray:
        lent.append(bytearray(size))
        return lent[-1]

    url = server.on("/", raw(CUT), reply(b"", 500), raw(CUT, end="reset", gap=0.01), reply())
    fetched = await (await opened()).fetch(url, allocate=allocate)
    assert len(lent) == 3
    assert fetched.body is lent[2]


async def test_pauses_are_random_doubling_and_longer_for_the_throttled(
    opened: Opened, server: Server, virtual: Time
) -> None:
    for status, base in ((500, 0.1), (503, 1.0), (429, 1.0)):
        virtual.slept.clear()
        await _fails(await opened(retries=6), server.on("/", reply(b"", status)))
        assert len(virtual.slept) == 6
        assert all(0 < pause < base * 2**i for i, pause in enumerate(virtual.slept))
        assert virtual.slept[5] > base


@pytest.mark.parametrize("retries", [0, 1])
async def test_as_many_retries_as_were_set(opened: Opened, server: Server, retries: int) -> None:
    error = await _fails(await opened(retries=retries), server.on("/", reply(b"", 500)))
    assert error.attempts == server.count("/") == retries + 1


async def test_the_deadline_covers_attempts_and_pauses(opened: Opened, server: Server, virtual: Time) -> None:
    error = await _fails(await opened(retries=100, deadline=5.0), server.on("/", reply(b"", 503)))
    assert (type(error), error.reason, error.status) == (FetchTimeout, "deadline", 503)
    assert "expected status 200, got 503" in str(error)
    assert error.attempts == server.count("/") < 10
    assert sum(virtual.slept) < 5.0


async def test_an_attempt_gets_no_more_than_is_left_of_the_deadline(opened: Opened, server: Server) -> None:
    error = await _fails(await opened(real=True, deadline=0.05), server.on("/", raw(end="hang")))
    assert (error.reason, error.attempts) == ("deadline", 1)
    assert error.seconds < 1.0


async def test_queueing_counts_towards_nothing(opened: Opened, server: Server) -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        await reply()(reader, writer)

    fetcher = await opened(real=True, per_host=1, timeout=0.35, deadline=0.35)
    url = server.on("/", slow)
    fetched = await asyncio.gather(*(fetcher.fetch(url) for _ in range(8)))
    assert all(0.04 < one.seconds < 0.35 for one in fetched)


async def test_retry_after_holds_up_the_host_and_nobody_else(opened: Opened, server: Server, virtual: Time) -> None:
    fetcher = await opened()
    url = server.on("/", reply(b"", 503, retry_after="30"), reply())
    assert (await fetcher.fetch(url)).attempts == 2
    assert virtual.slept == [30.0]

    virtual.slept.clear()
    server.on("/", reply(b"", 503, retry_after="30"), raw(), reply())
    assert (await fetcher.fetch(url)).attempts == 3
    assert virtual.slept[0] == 30.0
    assert virtual.slept[1] < 1.0

    server.on("/", reply(b"", 429, retry_after="40"), reply())
    await _fails(await opened(retries=0), url)
    fetcher = await opened(retries=0)
    server.on("/", reply(b"", 429, retry_after="40"), reply())
    await _fails(fetcher, url)
    virtual.slept.clear()
    await fetcher.fetch(server.url("/", "localhost"))
    assert virtual.slept == []
    await fetcher.fetch(url)
    assert virtual.slept == [40.0]


async def test_retry_after_as_a_date(opened: Opened, server: Server, virtual: Time) -> None:
    url = server.on("/", reply(b"", 503, retry_after=formatdate(usegmt=True)), reply())
    await (await opened()).fetch(url)
    assert 0.0 < virtual.slept[0] < 1.0  # it is over already: the usual pause

    server.on("/", reply(b"", 503, retry_after="Fri, 31 Dec 2199 23:59:59 GMT"), reply())
    assert (await _fails(await opened(), url)).attempts == 1


@pytest.mark.parametrize("value", ["soon", "1e9", "-1", ""])
async def test_retry_after_that_makes_no_sense(opened: Opened, server: Server, virtual: Time, value: str) -> None:
    await (await opened()).fetch(server.on("/", reply(b"", 503, retry_after=value), reply()))
    assert 0.0 < virtual.slept[0] < 1.0


@pytest.mark.parametrize("value", ["61", "1000000000", "9" * 5000])
async def test_who_asks_for_too_long_is_not_waited_for(opened: Opened, server: Server, value: str) -> None:
    fetcher = await opened()
    error = await _fails(fetcher, server.on("/", reply(b"", 429, retry_after=value), reply()))
    assert (type(error), error.status, error.attempts) == (HTTPStatusError, 429, 1)
    assert (await fetcher.fetch(server.url("/"))).body == BODY


async def test_a_stale_connection_is_one_attempt(opened: Opened, server: Server) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reply()(reader, writer)
        await reader.readuntil(b"\r\n\r\n")  # closes on the next request, as at the end of a keep-alive
        seen.append(1)
        writer.close()

    seen: list[int] = []
    fetcher, url = await opened(), server.on("/", once, reply())
    assert (await fetcher.fetch(url)).attempts == 1
    fetched = await fetcher.fetch(url)
    assert (fetched.attempts, fetched.retried) == (2, ("connect",))
    assert len(seen) + server.count("/") == fetcher.stats.requests == 3


async def test_nobody_listens(opened: Opened) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = await _fails(await opened(), f"http://127.0.0.1:{unused.getsockname()[1]}/")
    assert (type(error), error.reason, error.attempts) == (ConnectError, "connect", 4)
    assert "Connection refused" in str(error)


async def test_not_connected_in_time(opened: Opened) -> None:
    with deaf() as port:
        error = await _fails(await opened(connect_timeout=0.05, retries=1), f"http://127.0.0.1:{port}/")
    assert (type(error), error.reason, error.attempts) == (FetchTimeout, "connect_timeout", 2)


async def test_a_name_is_looked_up_again_once(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def unknown(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("asyncload.fetch.resolver.socket.getaddrinfo", unknown)
    error = await _fails(await opened(), "http://unknown.example/")
    assert (type(error), error.reason, error.attempts) == (ConnectError, "dns", 2)
    assert asked == ["unknown.example"] * 2
    assert "Name or service not known" in str(error)


async def test_too_many_open_files_pass(opened: Opened, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def few(*arguments: Any) -> socket.socket:
        made.append(1)
        if len(made) < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return socket.socket(*arguments)

    monkeypatch.setattr("asyncload.fetch.guard.socket", SimpleNamespace(socket=few))
    fetched = await (await opened()).fetch(server.on("/", reply()))
    assert (fetched.attempts, fetched.retried) == (3, ("connect", "connect"))
