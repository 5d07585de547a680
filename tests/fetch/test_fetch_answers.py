"""One answer each: what is delivered, and what is refused at once."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol
from multidict import CIMultiDict
from scripted_server import BODY, Script, Server, Time, raw, reply
from yarl import URL

from asyncload.errors import BlockedError, FetchError, FetchTimeout, HTTPStatusError, PayloadError
from asyncload.fetch import Fetcher, Http
from asyncload.fetch.body import BodyReader
from asyncload.fetch.job import Job

Opened = Callable[..., Awaitable[Fetcher]]

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


async def test_a_body_of_known_length_is_written_once_into_the_callers_buffer(opened: Opened, server: Server) -> None:
    memory, asked = bytearray(8000), []

    def allocate(size: int) -> memoryview:
        asked.append(size)
        return memoryview(memory)[:size]

    url = server.on("/", raw(OK + b"Content-Length: 5120\r\n\r\n" + BODY[:1000], BODY[1000:], end="keep", gap=0.01))
    fetcher = await opened()
    fetched = await fetcher.fetch(url, allocate=allocate)
    assert asked == [5120]
    assert memory[:5120] == BODY
    assert not any(memory[5120:])
    assert (fetched.body, fetched.status, fetched.attempts, fetched.retried) == (memoryview(memory)[:5120], 200, 1, ())
    assert fetcher.stats == (1, 5120, {}, 0)


@pytest.mark.parametrize(
    "script",
    [
        raw(CHUNKED + b"5\r\nabcde\r\n", b"3\r\nfgh\r\n0\r\n\r\n", end="keep", gap=0.01),
        raw(OK + b"\r\nabcde", b"fgh", gap=0.01),
        raw(b"HTTP/1.0 200 OK\r\n\r\nabcdefgh"),
        raw(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 8\r\n\r\nabcdefgh", end="keep"),
    ],
    ids=["chunked", "until closed", "HTTP/1.0", "after 100"],
)
async def test_bodies_of_other_kinds(opened: Opened, server: Server, script: Script) -> None:
    asked: list[int] = []
    fetched = await (await opened()).fetch(
        server.on("/", script), allocate=lambda size: asked.append(size) or bytearray(size)
    )
    assert (fetched.body, asked) == (b"abcdefgh", [8])


async def test_connections_are_used_again(opened: Opened, server: Server) -> None:
    fetcher = await opened()
    good, missing, moved = server.on("/", reply()), server.on("/missing", reply(b"no", 404)), server.url("/moved")
    server.on("/moved", reply(b"over there", 302, location="/"))
    for _ in range(3):
        await fetcher.fetch(good)
        await fetcher.fetch(moved)
        with pytest.raises(HTTPStatusError):
            await fetcher.fetch(missing)
    assert len(server.requests) == 12
    assert server.connections == 1


async def test_a_connection_with_the_rest_of_an_answer_is_closed(opened: Opened, server: Server) -> None:
    asyncio.get_running_loop().set_debug(True)  # aiohttp then warns of an answer that was just dropped
    rest = raw(b"HTTP/1.1 404 No\r\nContent-Length: 100\r\n\r\nabc", end="hang")
    fetcher = await opened()
    with pytest.raises(HTTPStatusError):
        await fetcher.fetch(server.on("/", rest))
    await fetcher.fetch(server.on("/", reply()))
    assert server.connections == 2


async def test_what_is_sent(opened: Opened, server: Server) -> None:
    target = "/a%2Fb/%7Ex+y?X-Amz-Signature=AbC%2b%3d&c=AK%2Fx'(){}|"
    fetcher = await opened(headers={"X-Key": "1"}, user_agent="somebody/2")
    await fetcher.fetch(server.on(target, reply()) + "#part")
    [(_, headers)] = server.requests
    host = f"127.0.0.1:{server.port}"
    assert headers == {
        "host": host,
        "user-agent": "somebody/2",
        "accept": "image/*,*/*;q=0.5",
        "accept-encoding": "identity",
        "x-key": "1",
    }


async def test_cookies_are_not_kept(opened: Opened, server: Server) -> None:
    server.on("/", reply(set_cookie="a=b"))
    fetcher, url = await opened(), server.url("/", "localhost")
    await fetcher.fetch(url)
    await fetcher.fetch(url)
    assert "cookie" not in server.requests[1][1]


async def _refused(fetcher: Fetcher, url: str, **options: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(url, **options)
    assert fetcher.stats.in_use == 0
    return caught.value


@pytest.mark.parametrize("status", [201, 203, 206, 300, 304, 400, 401, 403, 404, 410, 416, 451, 501, 505, 999])
async def test_other_statuses(opened: Opened, server: Server, status: int) -> None:
    error = await _refused(await opened(), server.on("/", reply(b"", status)))
    assert type(error) is HTTPStatusError
    assert (error.reason, error.status, error.attempts) == ("http_status", status, 1)
    assert server.count("/") == 1


@pytest.mark.parametrize(
    ("script", "kind", "reason"),
    [
        (reply(b"x" * 101), PayloadError, "too_large"),
        (raw(OK + b"Content-Length: 10000000000\r\n\r\n", end="hang"), PayloadError, "too_large"),
        (raw(CHUNKED + b"65\r\n" + b"x" * 101 + b"\r\n", end="hang"), PayloadError, "too_large"),
        (raw(OK + b"\r\n" + b"x" * 101, end="hang"), PayloadError, "too_large"),
        (reply(gzip.compress(b"x"), content_encoding="gzip"), PayloadError, "protocol"),
        (reply(b"x", content_encoding="identity, BR"), PayloadError, "protocol"),
        (reply(b"x", x_robots_tag="noai"), BlockedError, "robots"),
        (reply(b"x", x_robots_tag="asyncload: noindex"), BlockedError, "robots"),
        (raw(b"hello\r\n\r\n"), PayloadError, "protocol"),
        (raw(b"HTTP/1.1 xyz OK\r\n\r\n"), PayloadError, "protocol"),
        (raw(OK + b"X: " + b"x" * 10000 + b"\r\n\r\n"), PayloadError, "protocol"),
        (raw(OK + b"X: x\r\n" * 200 + b"\r\n"), PayloadError, "protocol"),
        (raw(OK + b"Content-Length: -1\r\n\r\nabc"), PayloadError, "protocol"),
        (raw(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), PayloadError, "protocol"),
        (raw(OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na"), PayloadError, "protocol"),
        (raw(CHUNKED + b"zz\r\nabc"), PayloadError, "protocol"),
    ],
)
async def test_what_is_refused_at_once(
    opened: Opened, server: Server, script: Script, kind: type[FetchError], reason: str
) -> None:
    lent: list[bytearray] = []
    error = await _refused(
        await opened(max_bytes=100),
        server.on("/", script),
        allocate=lambda size: lent.append(bytearray(size)) or lent[-1],
    )
    assert (type(error), error.reason, error.attempts) == (kind, reason, 1)
    assert server.count("/") == 1
    assert lent == []
    assert "127.0.0.1" in str(error)


async def test_no_buffer_is_asked_for_an_empty_body(opened: Opened, server: Server) -> None:
    fetcher, asked = await opened(retries=0), list[int]()
    for script in (reply(b""), reply(b"", 204), raw(CHUNKED + b"0\r\n\r\n", end="keep")):
        error = await _refused(
            fetcher, server.on("/", script), allocate=lambda size: asked.append(size) or bytearray(size)
        )
        assert error.reason == "empty"
    assert asked == []


async def test_a_body_that_ends_early_without_an_error_is_not_delivered() -> None:
    """aiohttp raises if a body is shorter than announced; were it not to, the rest of the buffer would be garbage."""
    content = aiohttp.StreamReader(BaseProtocol(asyncio.get_running_loop()), 2**16)
    content.feed_data(b"abc")
    content.feed_eof()
    response: Any = SimpleNamespace(headers=CIMultiDict({"Content-Length": "4"}), content=content)
    with pytest.raises(PayloadError, match="expected 4 bytes, got 3") as caught:
        await BodyReader(Http(), time.monotonic).read(response, "h", Job(URL("http://h"), None, bytearray))
    assert caught.value.reason == "truncated"


@pytest.mark.parametrize("encoding", ["identity", "none", "image/jpeg"])
async def test_an_encoding_that_is_none(opened: Opened, server: Server, encoding: str) -> None:
    assert (await (await opened()).fetch(server.on("/", reply(b"x", content_encoding=encoding)))).body == b"x"


async def test_robots_of_others_and_robots_not_respected(opened: Opened, server: Server) -> None:
    assert (await (await opened()).fetch(server.on("/a", reply(x_robots_tag="googlebot: noai")))).body == BODY
    url = server.on("/b", reply(x_robots_tag="noai"))
    assert (await (await opened(respect_robots_tag=False)).fetch(url)).body == BODY
    error = await _refused(await opened(user_agent="MyBot/1"), server.on("/c", reply(x_robots_tag="mybot: noai")))
    assert error.reason == "robots"


@pytest.mark.parametrize(
    ("script", "reason", "settings"),
    [
        (raw(end="hang"), "read_timeout", {"read_timeout": 0.05}),
        (raw(OK + b"Content-Length: 9\r\n\r\nabc", end="hang"), "read_timeout", {"read_timeout": 0.05}),
        (raw(end="hang"), "timeout", {"timeout": 0.05}),
        (raw(OK + b"Content-Length: 9\r\n\r\n", *[b"a"] * 8, end="hang", gap=0.02), "timeout", {"timeout": 0.1}),
        (
            raw(OK + b"Content-Length: 99\r\n\r\n", *[b"a"] * 50, end="hang", gap=0.02),
            "too_slow",
            {"read_timeout": 0.15},
        ),
    ],
    ids=["no answer", "gap", "no answer in all", "dribble in all", "dribble"],
)
async def test_the_slow(opened: Opened, server: Server, script: Script, reason: str, settings: dict[str, Any]) -> None:
    error = await _refused(await opened(real=True, retries=0, **settings), server.on("/", script))
    assert (type(error), error.reason) == (FetchTimeout, reason)
    assert error.seconds < 1.0


async def test_a_slow_body_above_the_least_rate_is_received(opened: Opened, server: Server) -> None:
    parts = [b"a" * 10] * 20
    script = raw(OK + b"Content-Length: 200\r\n\r\n", *parts, end="keep", gap=0.01)
    fetcher = await opened(real=True, read_timeout=0.1, min_rate=100)
    assert (await fetcher.fetch(server.on("/", script))).body == b"a" * 200


async def test_nothing_wrong_with_the_callers_own_errors(opened: Opened, server: Server) -> None:
    def full(size: int) -> bytearray:
        raise OSError(28, "No space left on device")

    fetcher = await opened()
    with pytest.raises(OSError, match="No space left"):
        await fetcher.fetch(server.on("/", reply()), allocate=full)
    with pytest.raises(ValueError, match="memoryview assignment"):
        await fetcher.fetch(server.url("/"), allocate=lambda size: memoryview(bytearray(size - 1)))
    assert server.count("/") == 2
    assert fetcher.stats.in_use == 0
    assert (await fetcher.fetch(server.url("/"))).body == BODY


@pytest.mark.parametrize(
    ("host", "reason"),
    [("2130706433", "bad_url"), ("127.1", "bad_url"), ("a..b", "bad_url"), ("x" * 64 + ".example", "bad_url")],
)
async def test_hosts_that_cannot_be_asked(opened: Opened, host: str, reason: str) -> None:
    error = await _refused(await opened(), f"http://{host}/secret?token=secret")
    assert (error.reason, error.attempts) == (reason, 1)
    assert "secret" not in str(error)


async def test_only_the_public_internet_unless_allowed(opened: Opened, server: Server, virtual: Time) -> None:
    url = server.on("/", reply())
    closed = await opened(allow_private=False)
    for blocked in (url, server.url("/", "localhost"), server.url("/", "0x7f.1"), "http://[::ffff:127.0.0.1]/"):
        error = await _refused(closed, blocked)
        assert (type(error), error.reason, error.attempts) == (BlockedError, "blocked_address", 1)
        assert "allow_hosts" in str(error)
    assert server.connections == 0
    some = await opened(allow_private=False, allow_hosts=("localhost",))
    assert (await some.fetch(server.url("/", "LocalHost"))).body == BODY
    assert (await _refused(some, url)).reason == "blocked_address"
    assert virtual.slept == []


async def test_every_address_of_a_name_is_looked_at(
    opened: Opened, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        ipv6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
        return [ipv6, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("asyncload.fetch.resolver.socket.getaddrinfo", two)
    server.on("/", reply())
    url = server.url("/", "rebound.example")
    error = await _refused(await opened(allow_private=False), url)
    assert (error.reason, error.attempts) == ("blocked_address", 1)
    assert server.connections == 0
    fetcher = await opened(allow_private=False, allow_hosts=("rebound.example",))
    assert (await fetcher.fetch(url)).body == BODY
