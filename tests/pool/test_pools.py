"""The three executors do the same work; the process pool survives what its workers do not."""

from __future__ import annotations

import asyncio
import ctypes
import io
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import pytest

from asyncload.decode import Decode
from asyncload.errors import BrokenPoolError, DecodeError, TransformError, WorkerError
from asyncload.pool import processes
from asyncload.pool.executors import make_pool
from asyncload.pool.jobs import CancelToken, Job, Pool, Result, SlotMemory
from asyncload.pool.work import SampleRandom

EXECUTORS = [("process", 2), ("thread", 2), ("process", 0)]


def picture(number: int, size: tuple[int, int] = (40, 30), kind: str = "PNG") -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def pixels_of(data: bytes) -> Any:
    return np.asarray(PIL.Image.open(io.BytesIO(data)))


class Row(NamedTuple):
    number: int
    memory: SlotMemory
    array: Any


class Driver:
    """A pool, and the results of what is given to it. ``broken`` is answered if it breaks."""

    def __init__(self, pool: Pool, broken: asyncio.Future[Exception]) -> None:
        self.pool = pool
        self.broken = broken
        self.token = CancelToken()

    def submit(
        self,
        data: bytes,
        index: int = 0,
        row: Row | None = None,
    ) -> asyncio.Future[Result]:
        body = self.pool.allocate(len(data))
        body.view[:] = data
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.pool.submit(Job(body, (1, 2, index), future.set_result, self.token, row))
        return future

    async def run(self, *images: bytes) -> list[Result]:
        return await asyncio.gather(*(self.submit(data, index) for index, data in enumerate(images)))


@asynccontextmanager
async def driver(
    transform: Callable[..., Any] | None = None, executor: Any = "process", workers: int = 2
) -> AsyncIterator[Driver]:
    broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
    pool = make_pool(
        transform, Decode(), workers=workers, executor=executor, arena_bytes=1 << 20, broken=broken.set_result
    )
    await pool.start()
    try:
        yield Driver(pool, broken)
    finally:
        await pool.close()


@pytest.mark.parametrize(("executor", "workers"), EXECUTORS)
async def test_every_image_comes_back_as_what_it_is(executor: str, workers: int) -> None:
    images = [picture(number, (20 + number, 30)) for number in range(12)]
    async with driver(None, executor, workers) as run:
        for result, data in zip(await run.run(*images), images, strict=True):
            assert result.error is None
            assert np.array_equal(result.value, pixels_of(data))


@pytest.mark.parametrize(("executor", "workers"), EXECUTORS)
async def test_results_are_written_into_their_rows(executor: str, workers: int) -> None:
    images = [picture(number) for number in range(6)]
    async with driver(lambda image, rng: image[::-1], executor, workers) as run:
        slot = run.pool.slot_memory((6, 30, 40, 3), np.dtype(np.uint8))
        rows = np.ndarray((6, 30, 40, 3), np.uint8, buffer=slot.buffer)
        results = await asyncio.gather(*(run.submit(d, i, Row(i, slot, rows[i])) for i, d in enumerate(images)))
        assert all(result.in_row and result.value is None for result in results)
        for row, data in zip(rows, images, strict=True):
            assert np.array_equal(row, pixels_of(data)[::-1])
        slot.close()
        assert np.array_equal(rows[5], pixels_of(images[5])[::-1])  # the array keeps its memory


@pytest.mark.parametrize(("executor", "workers"), EXECUTORS)
async def test_a_result_of_another_shape_or_dtype_comes_back_as_a_value(executor: str, workers: int) -> None:
    async with driver(lambda image, rng: image.astype(np.float32), executor, workers) as run:
        for shape, dtype in (((30, 40, 3), np.uint8), ((10, 10, 3), np.float32)):
            slot = run.pool.slot_memory((1, *shape), np.dtype(dtype))
            rows = np.ndarray((1, *shape), dtype, buffer=slot.buffer)
            result = await run.submit(picture(1), 0, Row(0, slot, rows[0]))
            assert not result.in_row
            assert result.value.dtype == np.float32
            slot.close()


@pytest.mark.parametrize(("executor", "workers"), EXECUTORS)
async def test_objects_come_back_whole(executor: str, workers: int) -> None:
    def describe(image: Any, rng: np.random.Generator) -> Any:
        return {"image": image[:2], "size": image.shape, "mean": float(image.mean()), "note": None}

    async with driver(describe, executor, workers) as run:
        data = picture(3)
        (result,) = await run.run(data)
        assert np.array_equal(result.value["image"], pixels_of(data)[:2])
        assert result.value["size"] == (30, 40, 3)
        assert result.value["mean"] == pixels_of(data).mean()


@pytest.mark.parametrize(("executor", "workers"), EXECUTORS)
async def test_a_result_does_not_change_when_the_next_image_is_decoded(executor: str, workers: int) -> None:
    """The decoder uses its memory again: results that are views of it, however deep inside, must not be."""

    def nested(image: Any, rng: np.random.Generator) -> Any:
        return [{"image": image[:, ::-1]}]

    images = [picture(number, kind="JPEG") for number in range(8)]
    async with driver(nested, executor, workers) as run:
        results = await run.run(*images)
        for result, data in zip(results, images, strict=True):
            assert np.array_equal(result.value[0]["image"], pixels_of(data)[:, ::-1])


@pytest.mark.parametrize(("executor", "workers"), EXECUTORS)
async def test_randomness_comes_from_the_key_alone(executor: str, workers: int) -> None:
    async with driver(lambda image, rng: rng.integers(0, 1 << 40, 4), executor, workers) as run:
        data = picture(0)
        values = [result.value.tolist() for result in await run.run(*[data] * 10)]
        again = [result.value.tolist() for result in await run.run(*[data] * 10)]
    assert values == again
    assert len(set(map(tuple, values))) == 10
    assert values == [SampleRandom()(1, 2, index).integers(0, 1 << 40, 4).tolist() for index in range(10)]


@pytest.mark.parametrize(("executor", "workers"), EXECUTORS)
async def test_a_bad_image_and_a_raising_transform_fail_alone(executor: str, workers: int) -> None:
    def picky(image: Any, rng: np.random.Generator) -> Any:
        if image.shape[1] == 13:
            raise ZeroDivisionError("thirteen")
        return image

    async with driver(picky, executor, workers) as run:
        good, bad, broken, leaving = await asyncio.gather(
            run.submit(picture(0)),
            run.submit(b"<!DOCTYPE html>"),
            run.submit(picture(1, (13, 10))),
            run.submit(picture(2)),
        )
        assert good.error is None
        assert leaving.error is None
        assert isinstance(bad.error, DecodeError)
        assert bad.error.reason == "not_image"
        assert isinstance(broken.error, TransformError)
        assert broken.error.reason == "raised"
        assert "ZeroDivisionError: thirteen" in str(broken.error)
        assert "test_pools.py" in str(broken.error)  # where it was raised


async def test_a_result_that_cannot_leave_a_process_says_so() -> None:
    async with driver(lambda image, rng: {1, 2}) as run:
        (result,) = await run.run(picture(0))
        assert isinstance(result.error, TransformError)
        assert result.error.reason == "bad_result"
        assert 'use executor="thread"' in str(result.error)
    async with driver(lambda image, rng: {1, 2}, "thread") as run:
        (result,) = await run.run(picture(0))
        assert result.value == {1, 2}


async def test_bodies_larger_than_the_arena_and_results_larger_than_the_outbox() -> None:
    sizes = [(10, 10), (900, 700), (30, 30), (1200, 900), (10, 10)]
    images = [picture(number, size) for number, size in enumerate(sizes)]
    assert len(images[3]) > 1 << 20
    async with driver(None) as run:
        for result, data in zip(await run.run(*images), images, strict=True):
            assert np.array_equal(result.value, pixels_of(data))


async def test_a_worker_that_dies_costs_no_image() -> None:
    """Workers are killed while they have work, again and again; every job is answered, and answered right."""
    images = [picture(number) for number in range(60)]

    def slow(image: Any, rng: np.random.Generator) -> Any:
        time.sleep(0.005)  # so that a kill meets work in progress
        return image

    async with driver(slow) as run:
        pool = run.pool
        assert isinstance(pool, processes.ProcessPool)
        futures = [run.submit(data, index) for index, data in enumerate(images)]
        for number in (5, 20, 40):
            await futures[number]
            victim = next(worker for worker in pool._workers if worker.jobs)
            os.kill(victim.process.pid, signal.SIGKILL)
        results = await asyncio.gather(*futures)
        assert pool.crashes == 3
        for result, data in zip(results, images, strict=True):
            assert result.error is None
            assert np.array_equal(result.value, pixels_of(data))


@pytest.mark.parametrize("how", ["segfault", "exit"])
async def test_an_image_that_kills_its_worker_twice_is_given_up(how: str, capfd: pytest.CaptureFixture[str]) -> None:
    def deadly(image: Any, rng: np.random.Generator) -> Any:
        if image.shape[1] == 13:
            os._exit(7) if how == "exit" else ctypes.string_at(0)
        return image

    async with driver(deadly) as run:
        images = [picture(number) for number in range(20)]
        images[7] = picture(7, (13, 10))
        results = await run.run(*images)
        for number, result in enumerate(results):
            if number == 7:
                assert isinstance(result.error, WorkerError)
                assert result.error.reason == "worker_crash"
                assert ("exit code 7" if how == "exit" else "SIGSEGV") in str(result.error)
            else:
                assert result.error is None
        assert run.pool.crashes == 2
        assert not run.broken.done()


async def test_workers_that_only_die_break_the_pool() -> None:
    async with driver(lambda image, rng: os._exit(3)) as run:
        futures = [run.submit(picture(number)) for number in range(50)]
        error = await run.broken
        assert isinstance(error, BrokenPoolError)
        assert "decode workers died one after the other (exit code 3)" in str(error)
        assert all(isinstance(future.result().error, WorkerError) for future in futures if future.done())


class Unloadable:
    """Loads in the process that made it, and nowhere else."""

    def __call__(self, image: Any, rng: np.random.Generator) -> Any:
        return image

    def __reduce__(self) -> Any:
        return _load, (os.getpid(),)


def _load(pid: int) -> Unloadable:
    if os.getpid() != pid:
        raise ImportError("no module named 'my_transforms'")
    return Unloadable()


async def test_a_transform_that_cannot_be_loaded_breaks_the_pool_at_once() -> None:
    async with driver(Unloadable()) as run:
        run.submit(picture(0))
        error = await run.broken
        assert isinstance(error, BrokenPoolError)
        assert "cannot load the transform: ImportError: no module named 'my_transforms'" in str(error)


def test_a_transform_that_cannot_be_pickled_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r'cannot be sent to worker processes.*use executor="thread"'):
        make_pool(lambda image, rng: lock, Decode(), workers=1, executor="process", arena_bytes=1, broken=print)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"workers": -1}, ValueError, "workers: expected at least 0, got -1"),
        ({"workers": 1.5}, TypeError, "workers: expected an integer"),
        ({"executor": "fork"}, ValueError, "executor: expected"),
        ({"transform": 3}, TypeError, "transform: expected a callable"),
        ({"transform": lambda image: image}, TypeError, "transforms.wrap adapts"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    arguments = {"transform": None, "workers": 1, "executor": "process", **options}
    with pytest.raises(error, match=says):
        make_pool(arguments.pop("transform"), Decode(), arena_bytes=1, broken=print, **arguments)


async def test_a_worker_imports_neither_aiohttp_nor_torch() -> None:
    def loaded(image: Any, rng: np.random.Generator) -> Any:
        return sorted({"aiohttp", "torch", "asyncio", "cv2", "uvloop"} & set(sys.modules))

    async with driver(loaded, workers=1) as run:
        (result,) = await run.run(picture(0))
        assert result.value == []


async def test_a_module_beside_the_script_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_crops.py").write_text("def corner(image, rng):\n    return image[:4, :5]\n")
    monkeypatch.syspath_prepend(tmp_path)
    from my_crops import corner  # type: ignore[import-not-found]

    async with driver(corner, workers=1) as run:
        (result,) = await run.run(picture(0))
        assert result.value.shape == (4, 5, 3)


async def test_a_worker_that_breaks_the_protocol_is_replaced() -> None:
    def lie(image: Any, rng: np.random.Generator) -> Any:
        if image.shape[1] == 13:  # write into the socket what no worker would
            for fd in range(3, 200):
                try:
                    os.write(fd, b"\xff" * 2000)
                except OSError:
                    pass
            time.sleep(30)
        return image

    async with driver(lie) as run:
        results = await run.run(picture(0), picture(1, (13, 10)), picture(2))
        assert [type(result.error) for result in results] == [type(None), WorkerError, type(None)]


async def test_closing_does_not_wait_for_a_transform_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CLOSE_TIMEOUT", 0.1)
    started = time.monotonic()
    async with driver(lambda image, rng: time.sleep(60), workers=1) as run:
        run.submit(picture(0))
        run.submit(picture(1))
        pool = run.pool
        assert isinstance(pool, processes.ProcessPool)
        while not any(worker.jobs for worker in pool._workers):
            await asyncio.sleep(0.01)
    assert time.monotonic() - started < 30


async def test_slots_beyond_the_limit_are_ordinary_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SHARED_SLOTS_MAX", 1)
    async with driver(lambda image, rng: image, workers=1) as run:
        shape, dtype = (1, 30, 40, 3), np.dtype(np.uint8)
        slots = [run.pool.slot_memory(shape, dtype) for _ in range(2)]
        rows = [np.ndarray(shape, dtype, buffer=slot.buffer)[0] for slot in slots]
        results = [await run.submit(picture(5), 0, Row(0, slot, row)) for slot, row in zip(slots, rows, strict=True)]
        assert [result.in_row for result in results] == [True, False]
        assert np.array_equal(results[1].value, rows[0])
        slots[0].close()
        again = run.pool.slot_memory(shape, dtype)  # a place is free again, and the worker forgot the old one
        row = np.ndarray(shape, dtype, buffer=again.buffer)[0]
        assert (await run.submit(picture(6), 0, Row(0, again, row))).in_row
        again.close()


@pytest.mark.parametrize(("executor", "workers"), EXECUTORS)
async def test_cancelled_jobs_are_never_answered_and_harm_no_other(executor: str, workers: int) -> None:
    async with driver(lambda image, rng: image, executor, workers) as run:
        slot = run.pool.slot_memory((50, 30, 40, 3), np.dtype(np.uint8))
        rows = np.ndarray((50, 30, 40, 3), np.uint8, buffer=slot.buffer)
        cancelled = [run.submit(picture(i), i, Row(i, slot, rows[i])) for i in range(50)]
        await cancelled[0]
        run.token.cancelled = True
        slot.close()  # with jobs for it still waiting
        answered = sum(future.done() for future in cancelled)
        run.token = CancelToken()
        results = await run.run(*map(picture, range(6)))
        assert all(result.error is None for result in results)
        assert run.pool.crashes == 0
        assert sum(future.done() for future in cancelled) == answered
