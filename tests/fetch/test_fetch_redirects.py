from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from scripted_server import BODY, Server, raw, reply

from asyncload.errors import BlockedError, FetchError, FetchTimeout, HTTPStatusError
from asyncload.fetch import Fetcher

Opened = Callable[..., Awaitable[Fetcher]]


async def _fails(fetcher: Fetcher, url: str) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(url)
    assert fetcher.stats.in_use == 0
    return caught.value


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_it_is_followed(opened: Opened, server: Server, status: int) -> None:
    server.on("/there%2f?s=%2b", reply())
    fetcher = await opened()
    fetched = await fetcher.fetch(server.on("/", reply(b"", status, location="/there%2f?s=%2b")))
    assert (fetched.body, fetched.attempts) == (BODY, 1)
    assert fetcher.stats.requests == 2


@pytest.mark.parametrize("headers", [{}, {"location": ""}])
async def test_a_redirect_to_nowhere(opened: Opened, server: Server, headers: dict[str, str]) -> None:
    error = await _fails(await opened(), server.on("/", reply(b"", 302, **headers)))
    assert (type(error), error.status) == (HTTPStatusError, 302)


@pytest.mark.parametrize("most", [0, 1, 5])
async def test_so_many_and_no_more(opened: Opened, server: Server, most: int) -> None:
    for step in range(most + 1):
        server.on(f"/{step}", reply(b"", 302, location=f"/{step + 1}"))
    server.on(f"/{most + 1}", reply())
    fetcher = await opened(max_redirects=most)
    assert (await fetcher.fetch(server.url("/1"))).body == BODY
    error = await _fails(fetcher, server.url("/0"))
    assert (type(error), error.reason, error.attempts) == (BlockedError, "too_many_redirects", 1)
    assert server.count(f"/{most + 1}") == 1


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file:///etc/passwd", "blocked_scheme"),
        ("ftp://127.0.0.1/", "blocked_scheme"),
        ("http://[", "bad_redirect"),
    ],
)
async def test_it_is_not_followed_everywhere(opened: Opened, server: Server, location: str, reason: str) -> None:
    error = await _fails(await opened(), server.on("/", reply(b"", 302, location=location)))
    assert (type(error), error.reason, error.status, error.attempts) == (BlockedError, reason, 302, 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"])
async def test_it_does_not_lead_into_the_intranet(opened: Opened, server: Server, host: str) -> None:
    server.on("/canary", reply())
    server.on("/", reply(b"", 302, location=server.url("/canary", host)))
    fetcher = await opened(allow_private=False, allow_hosts=("localhost",))
    error = await _fails(fetcher, server.url("/", "localhost"))
    assert (type(error), error.reason, error.attempts) == (BlockedError, "blocked_address", 1)
    assert server.count("/canary") == 0


async def test_headers_are_for_the_origin_alone(opened: Opened, server: Server) -> None:
    server.on("/a", reply(b"", 302, location="/b"))
    server.on("/b", reply(b"", 302, location=server.url("/c", "localhost")))
    server.on("/c", reply(b"", 302, location=server.url("/d")))
    server.on("/d", reply())
    await (await opened(headers={"X-Key": "1", "Authorization": "2"})).fetch(server.url("/a"))
    sent = {target: (headers.get("x-key"), headers.get("authorization")) for target, headers in server.requests}
    assert sent == {"/a": ("1", "2"), "/b": ("1", "2"), "/c": (None, None), "/d": (None, None)}
    assert all(headers["user-agent"].startswith("asyncload/") for _, headers in server.requests)


async def test_a_password_in_the_url_is_for_the_origin_alone(opened: Opened, server: Server) -> None:
    server.on("/a", reply(b"", 302, location=server.url("/b")))
    server.on("/b", reply(b"", 302, location=server.url("/c", "other:word@localhost")))
    server.on("/c", reply())
    fetcher = await opened(headers={"authorization": "Bearer x", "X-Key": "1"})
    await fetcher.fetch(server.url("/a", "us%40er:p%3Ass@127.0.0.1"))
    sent = {target: (headers.get("authorization"), headers.get("x-key")) for target, headers in server.requests}
    basic = "Basic dXNAZXI6cDpzcw=="  # us@er:p:ss
    assert sent == {"/a": (basic, "1"), "/b": (basic, "1"), "/c": (None, None)}


async def test_each_hop_has_a_place_of_its_host(opened: Opened, server: Server) -> None:
    reached, gate = asyncio.Event(), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await gate.wait()
        await reply()(reader, writer)

    server.on("/far", wait)
    server.on("/", reply(b"", 302, location=server.url("/far", "localhost")))
    server.on("/other", reply())
    fetcher = await opened(per_host=1)
    redirected = asyncio.ensure_future(fetcher.fetch(server.url("/")))
    await reached.wait()
    assert (await fetcher.fetch(server.url("/other"))).body == BODY
    waiting = asyncio.ensure_future(fetcher.fetch(server.url("/other", "localhost")))
    await asyncio.sleep(0.02)
    assert server.count("/other") == 1
    gate.set()
    await asyncio.gather(redirected, waiting)
    assert server.count("/other") == 2


async def test_one_timeout_for_all_hops(opened: Opened, server: Server) -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        await reply(b"", 302, location="/")(reader, writer)

    server.on("/", slowly)
    error = await _fails(await opened(real=True, timeout=0.12, retries=0, max_redirects=100), server.url("/"))
    assert (type(error), error.reason) == (FetchTimeout, "timeout")
    assert 1 < server.count("/") < 4


async def test_a_redirect_is_followed_anew_in_each_attempt(opened: Opened, server: Server) -> None:
    server.on("/", reply(b"", 302, location="/b"), reply(b"", 302, location="/c"))
    server.on("/b", raw())
    server.on("/c", reply())
    fetched = await (await opened()).fetch(server.url("/"))
    assert (fetched.body, fetched.retried) == (BODY, ("connect",))
    assert [target for target, _ in server.requests] == ["/", "/b", "/", "/c"]
