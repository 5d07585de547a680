"""The asynchronous face, inside a loop that is the caller's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

import asyncload
from asyncload import Http, Session
from asyncload.testing import ImageServer

LOCAL = Http(allow_private=True)


@pytest.fixture(scope="module")
def server() -> Iterator[ImageServer]:
    with ImageServer(count=40, size=(64, 96)) as server:
        server.prepare()
        list(asyncload.stream(server.urls(1), workers=0, http=LOCAL))
        yield server


def crop(image: Any, rng: np.random.Generator) -> Any:
    left = int(rng.integers(0, 8))
    return np.ascontiguousarray(image[:16, left : left + 16])


async def indices(samples: AsyncIterator[Any]) -> list[int]:
    return [sample.index async for sample in samples]


async def until_held(gate: Any, count: int) -> None:
    await asyncio.get_running_loop().run_in_executor(None, gate.wait_for_requests, count)


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 0}, {"workers": 2, "executor": "thread"}], ids=str)
async def test_load_gives_one_sample(server: ImageServer, options: dict[str, Any]) -> None:
    url, label = server.pairs()[3]
    async with Session(crop, http=LOCAL, **options) as session:
        sample = await session.load(url, label, index=3)
        again = await session.load(url, label, index=3)
        other = await session.load(url, label, index=4)
        assert (sample.index, sample.url, sample.label) == (3, url, label)
        assert sample.image.shape == (16, 16, 3)
        assert np.array_equal(sample.image, again.image)
        assert not np.array_equal(sample.image, other.image)
        assert await session.fetch(url) == server.image(3)
        stats = session.stats()
        assert stats.samples == 3
        assert 0 < stats.decode_seconds < stats.waited_seconds
        assert stats.bottleneck in ("decode", "network", "transform")


async def test_no_thread_is_needed(server: ImageServer) -> None:
    before = set(threading.enumerate())
    async with Session(crop, http=LOCAL, workers=1) as session:
        await asyncio.gather(*(session.load(url) for url in server.urls(20)))
        assert not {t for t in set(threading.enumerate()) - before if "resolver" not in t.name and "dns" not in t.name}


async def test_errors_are_raised_where_they_are_awaited(server: ImageServer) -> None:
    async with Session(crop, http=LOCAL, workers=1) as session:
        with pytest.raises(asyncload.HTTPStatusError) as dead:
            await session.load(server.fault_url(1, "status", 410))
        assert (dead.value.status, dead.value.attempts) == (410, 1)
        with pytest.raises(asyncload.DecodeError) as bad:
            await session.load(server.fault_url(1, "html"))
        assert (bad.value.reason, bad.value.attempts, bad.value.status) == ("not_image", 1, 200)
        assert bad.value.bytes > 0
        assert dict(session.stats().reasons) == {"http_status": 1, "not_image": 1}


async def test_cancelling_the_caller_cancels_the_download(server: ImageServer) -> None:
    async with Session(crop, http=LOCAL, workers=1) as session:
        with server.hold(5) as gate:
            task = asyncio.create_task(session.load(server.urls()[5]))
            await until_held(gate, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.get_running_loop().run_in_executor(None, gate.wait_for_disconnect)
        assert (await session.load(server.urls()[5])).image.shape == (16, 16, 3)


async def test_a_stream_gives_every_sample_once(server: ImageServer) -> None:
    async with Session(crop, http=LOCAL, workers=2) as session:
        async with session.stream(server.pairs()) as samples:
            assert sorted(await indices(samples)) == list(range(40))
            assert await indices(samples) == []  # and no more
            assert samples.stats().samples == 40
        async with session.stream(server.pairs(), ordered=True, shuffle=True) as samples:
            shuffled = await indices(samples)
            assert shuffled != sorted(shuffled)
            assert sorted(shuffled) == list(range(40))
        async with session.stream(server.pairs(), batch_size=16) as batches:
            assert [len(batch) async for batch in batches] == [16, 16, 8]
        assert session.stats().samples == 120


async def test_streams_and_loads_share_a_session(server: ImageServer) -> None:
    async with Session(crop, http=LOCAL, workers=2) as session:

        async def whole() -> list[int]:
            async with session.stream(server.urls()) as samples:
                return await indices(samples)

        results = await asyncio.gather(whole(), session.load(server.urls()[1]), whole())
        assert sorted(results[0]) == sorted(results[2]) == list(range(40))


async def test_leaving_a_stream_ends_its_downloads(server: ImageServer) -> None:
    async with Session(crop, http=LOCAL, workers=1) as session:
        with server.hold(7) as gate:
            async with session.stream(server.urls()) as samples:
                async for _ in samples:
                    break
                await until_held(gate, 1)
            await asyncio.get_running_loop().run_in_executor(None, gate.wait_for_disconnect)


async def test_failures_of_a_stream(server: ImageServer) -> None:
    urls = server.urls()
    urls[4] = server.fault_url(4, "status", 404)
    seen: list[int] = []
    async with Session(crop, http=LOCAL, workers=1) as session:
        async with session.stream(urls, on_error=lambda failure: seen.append(failure.index)) as samples:
            assert len(await indices(samples)) == 39
            assert [failure.index for failure in samples.failures] == seen == [4]
        async with session.stream(urls, on_error="raise") as samples:
            with pytest.raises(asyncload.HTTPStatusError):
                await indices(samples)


async def test_closing_ends_whoever_waits(server: ImageServer) -> None:
    with server.hold(3) as gate:
        session = Session(crop, http=LOCAL, workers=1)
        await session.__aenter__()
        stream = session.stream([server.urls()[3]])
        await stream.__aenter__()
        load = asyncio.create_task(session.load(server.urls()[3]))
        following = asyncio.ensure_future(stream.__anext__())
        await until_held(gate, 2)
        await session.aclose()
        await session.aclose()
        for waiting in (load, following):
            with pytest.raises(asyncload.ClosedError):
                await waiting
        await stream.__aexit__(None, None, None)


async def test_a_consumer_that_is_slow_bounds_what_is_decoded(server: ImageServer) -> None:
    decoded = 0

    def count(image: Any, rng: np.random.Generator) -> Any:
        nonlocal decoded
        decoded += 1
        return image

    async with Session(count, http=LOCAL, workers=0) as session:
        async with session.stream(server.urls(), prefetch=5) as samples:
            taken = 0
            async for _ in samples:
                taken += 1
                await asyncio.sleep(0.01)
                assert decoded <= taken + 5 + 1


async def test_what_cannot_be_meant_is_refused(server: ImageServer) -> None:
    with pytest.raises(ValueError, match="seed: expected less than 2"):
        Session(seed=1 << 63)
    async with Session(http=LOCAL, workers=0) as session:
        with pytest.raises(ValueError, match="index: expected at least 0, got -1"):
            await session.load(server.urls()[0], index=-1)
        with pytest.raises(ValueError, match="epoch: expected less than 2"):
            session.stream([], epoch=1 << 63)


async def test_outside_of_async_with_it_says_so(server: ImageServer) -> None:
    session = Session(http=LOCAL, workers=0)
    with pytest.raises(asyncload.ClosedError, match="async with"):
        await session.load(server.urls()[0])
    async with session:
        stream = session.stream(server.urls())
        with pytest.raises(asyncload.ClosedError, match="async with"):
            await stream.__anext__()
    with pytest.raises(asyncload.ClosedError, match="closed"):
        await session.load(server.urls()[0])
    with pytest.raises(asyncload.ClosedError, match="once"):
        await session.__aenter__()


async def test_a_pool_that_breaks_reaches_whoever_waits(server: ImageServer) -> None:
    async with Session(lambda image, rng: __import__("os")._exit(3), http=LOCAL, workers=1) as session:
        results = await asyncio.gather(*(session.load(url) for url in server.urls()), return_exceptions=True)
        kinds = {type(result) for result in results}
        assert asyncload.BrokenPoolError in kinds
        assert kinds <= {asyncload.BrokenPoolError, asyncload.WorkerError}
        with pytest.raises(asyncload.BrokenPoolError):
            await session.load(server.urls()[0])
