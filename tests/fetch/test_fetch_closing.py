from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from scripted_server import BODY, Server, deaf, raw, reply

from asyncload.errors import ClosedError
from asyncload.fetch import Fetched, Fetcher, Http

Opened = Callable[..., Awaitable[Fetcher]]

HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"a" * 50


def _sockets(port: int) -> list[Any]:
    """Our ends of connections to ``port``."""
    return [c for c in psutil.Process().net_connections() if c.raddr and c.raddr.port == port and c.fd != -1]


async def _until(condition: Callable[[], object]) -> None:
    while not condition():  # there is no event for what others do
        await asyncio.sleep(0.001)


@pytest.fixture
def unanswered() -> Iterator[int]:
    with deaf() as port:
        yield port


async def test_no_socket_remains(server: Server) -> None:
    url = server.on("/", reply())
    server.on("/cut", raw(HALF))
    async with Fetcher(Http(allow_private=True, retries=0)) as fetcher:
        fetched = await asyncio.gather(
            *(fetcher.fetch(url) for _ in range(20)), fetcher.fetch(server.url("/cut")), return_exceptions=True
        )
        assert sum(isinstance(one, Exception) for one in fetched) == 1
        assert _sockets(server.port)
    assert _sockets(server.port) == []
    await fetcher.aclose()


async def test_no_thread_remains(server: Server, tmp_path: Path) -> None:
    def ours() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncload-")]

    (tmp_path / "a").write_bytes(b"picture")
    server.on("/", reply())
    async with Fetcher(Http(allow_private=True)) as fetcher:
        await fetcher.fetch(server.url("/", "localhost"))
        await fetcher.fetch(str(tmp_path / "a"))
        assert len(ours()) == 2
    await _until(lambda: not ours())
    assert fetcher.stats.requests == 1


async def test_a_cancelled_caller_is_not_told_of_the_closing(server: Server) -> None:
    url = server.on("/", raw(end="hang"))
    async with Fetcher(Http(allow_private=True)) as fetcher:
        fetch = asyncio.ensure_future(fetcher.fetch(url))
        await _until(lambda: server.requests)
        fetch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetch


@pytest.mark.parametrize("at", ["connect", "headers", "body", "place", "pause", "host's pause"])
async def test_cancellation_is_prompt_and_gives_everything_back(
    opened: Opened, server: Server, unanswered: int, at: str
) -> None:
    fetcher = await opened(real=True, per_host=1)
    server.on("/headers", raw(end="hang"))
    server.on("/body", raw(HALF, end="hang"))
    server.on("/pause", reply(b"", 503, retry_after="50"))
    server.on("/", reply())
    lent: list[Any] = []

    def start(target: str, port: int = server.port) -> asyncio.Task[Any]:
        def allocate(size: int) -> bytearray:
            lent.append(bytearray(size))
            return lent[-1]

        return asyncio.ensure_future(fetcher.fetch(f"http://127.0.0.1:{port}{target}", allocate=allocate))

    tasks = []
    match at:
        case "connect":
            tasks = [start("/", unanswered)]
            await _until(lambda: fetcher.stats.in_use)
        case "headers":
            tasks = [start("/headers")]
            await _until(lambda: server.requests)
        case "body":
            tasks = [start("/body")]
            await _until(lambda: lent)
        case "place":
            tasks = [start("/body"), start("/"), start("/")]
            await _until(lambda: lent)
        case "pause":
            tasks = [start("/pause")]
            await _until(lambda: fetcher.stats.retried)
        case "host's pause":
            tasks = [start("/pause"), start("/")]
            await _until(lambda: fetcher.stats.retried)
    for task in reversed(tasks):
        task.cancel()
    ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 1.0)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended)
    assert fetcher.stats.in_use == 0
    assert not fetcher._client._session.connector._acquired  # type: ignore[union-attr]
    if "pause" not in at:
        assert (await fetcher.fetch(server.url("/"))).body == BODY


@pytest.mark.parametrize("at", ["headers", "body", "place", "pause", "name"])
async def test_closing_ends_what_is_under_way(server: Server, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, asked, resume = threading.Event(), threading.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        await resume.wait()

    def look_up(*_: Any, **__: Any) -> Any:
        asked.set()
        gate.wait(10)
        raise OSError

    monkeypatch.setattr("asyncload.fetch.resolver.socket.getaddrinfo", look_up)
    server.on("/headers", raw(end="hang"))
    server.on("/body", raw(HALF, end="hang"))
    server.on("/place", raw(end="hang"))
    server.on("/pause", reply(b"", 500))
    lent: list[bytearray] = []
    async with Fetcher(Http(allow_private=True, connections=1), sleep=sleep) as fetcher:
        url = "http://slow.example/" if at == "name" else server.url(f"/{at}")
        fetches = [
            asyncio.ensure_future(fetcher.fetch(url, allocate=lambda size: lent.append(bytearray(size)) or lent[-1]))
            for _ in range(2)
        ]
        await _until(
            {
                "headers": lambda: server.requests,
                "body": lambda: lent,
                "place": lambda: server.requests,
                "pause": lambda: fetcher.stats.retried.get("http_status") == 2,
                "name": asked.is_set,
            }[at]
        )
    resume.set()
    gate.set()
    ended = await asyncio.wait_for(asyncio.gather(*fetches, return_exceptions=True), 1.0)
    assert [type(one) for one in ended] == [ClosedError, ClosedError]
    assert _sockets(server.port) == []


async def test_closing_ends_the_reading_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"picture")
    gate, begun = threading.Event(), threading.Event()

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.set()
        gate.wait(10)
        return open(*arguments, **options)

    monkeypatch.setattr("asyncload.fetch.files.open", slow, raising=False)
    async with Fetcher(Http()) as fetcher:
        reads = [asyncio.ensure_future(fetcher.fetch(str(tmp_path / "a"))) for _ in range(20)]
        await _until(begun.is_set)
    gate.set()
    ended = await asyncio.gather(*reads, return_exceptions=True)
    # Those that a thread had begun with are finished.
    assert [type(one) for one in ended] == [Fetched] * 8 + [ClosedError] * 12


async def test_it_is_used_while_it_is_open(tmp_path: Path) -> None:
    fetcher = Fetcher(Http())
    for url in ("http://h/", str(tmp_path)):
        with pytest.raises(ClosedError, match="is new"):
            await fetcher.fetch(url)
    await fetcher.aclose()
    async with fetcher:
        with pytest.raises(RuntimeError, match="opened once"):
            await fetcher.__aenter__()
    for url in ("http://h/", str(tmp_path)):
        with pytest.raises(ClosedError, match="is closed"):
            await fetcher.fetch(url)
    with pytest.raises(RuntimeError, match="opened once"):
        await fetcher.__aenter__()
    await fetcher.aclose()
