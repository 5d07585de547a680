from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asyncload.errors import FetchError, PayloadError
from asyncload.fetch import Fetcher
from asyncload.fetch.files import Files

Opened = Callable[..., Awaitable[Fetcher]]


async def test_a_path_and_a_file_url(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "a picture%41.jpg"
    path.write_bytes(b"picture")
    fetcher = await opened()
    plain = await fetcher.fetch(str(path))
    assert (bytes(plain.body), plain.status, plain.attempts, plain.retried) == (b"picture", None, 1, ())
    assert bytes((await fetcher.fetch(path.as_uri())).body) == b"picture"
    assert fetcher.stats.bytes == 14
    assert fetcher.stats.requests == 0


async def test_it_is_read_into_the_callers_buffer(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"picture")
    buffer = bytearray(10)
    fetched = await (await opened()).fetch(str(tmp_path / "a"), allocate=lambda size: memoryview(buffer)[:size])
    assert isinstance(fetched.body, memoryview)
    assert buffer == b"picture\0\0\0"


async def test_a_link_may_be_followed(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"picture")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert bytes((await (await opened()).fetch(str(tmp_path / "b"))).body) == b"picture"


@pytest.fixture
def oddities(tmp_path: Path) -> Path:
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_bytes(b"x" * 101)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("missing", FetchError, "file_not_found"),
        ("empty", PayloadError, "empty"),
        ("large", PayloadError, "too_large"),
        ("folder", FetchError, "file"),
        ("fifo", FetchError, "file"),
        ("socket", FetchError, "file"),
        ("loop", FetchError, "file"),
        ("nul\0", FetchError, "file"),
        ("x" * 300, FetchError, "file"),
    ],
)
async def test_what_is_no_file_to_read(
    opened: Opened, oddities: Path, name: str, kind: type[FetchError], reason: str
) -> None:
    fetcher = await opened(max_bytes=100)
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(str(oddities / name))
    assert (type(caught.value), caught.value.reason, caught.value.attempts) == (kind, reason, 1)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
async def test_a_device_is_not_read(opened: Opened) -> None:
    with pytest.raises(FetchError, match="not a regular file"):
        await (await opened()).fetch("/dev/zero")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
async def test_a_file_of_somebody_else(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "a").touch(mode=0o000)
    with pytest.raises(FetchError, match="Permission denied") as caught:
        await (await opened()).fetch(str(tmp_path / "a"))
    assert caught.value.reason == "file"


async def test_eight_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"picture")
    running, most, gate, enough = 0, 0, threading.Event(), threading.Semaphore(0)
    fstat, lock = os.fstat, threading.Lock()

    def slow(descriptor: int) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        enough.release()
        gate.wait(10)
        with lock:
            running -= 1
        return fstat(descriptor)

    monkeypatch.setattr("asyncload.fetch.files.os.fstat", slow)
    files = Files(100)
    reads = asyncio.gather(*(files.read(str(tmp_path / "a")) for _ in range(30)))
    for _ in range(8):
        await asyncio.to_thread(enough.acquire, timeout=10)
    gate.set()
    assert set(await reads) == {b"picture"}
    assert most == 8
    files.close()
