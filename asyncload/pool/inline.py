"""No workers at all: each image is done in the event loop's own thread, one by one, where a debugger can follow."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncload.pool.jobs import Body, Job, SlotMemory
from asyncload.pool.work import Work

__all__ = ["HeapBody", "HeapSlot", "InlinePool"]


class HeapBody:
    """A body in ordinary memory, for executors that share this process."""

    __slots__ = ("view",)

    def __init__(self, nbytes: int) -> None:
        self.view = memoryview(bytearray(nbytes))

    def release(self) -> None:
        self.view.release()


class HeapSlot:
    """Anonymous memory of this process.

    A ``mmap`` and not an array, because numpy looks through an array to the memory's owner when it makes a view: with
    a foreign owner every view refers to the delivered array, and that is how we know when the slot is free again.
    """

    __slots__ = ("buffer",)

    def __init__(self, nbytes: int) -> None:
        self.buffer = mmap.mmap(-1, max(nbytes, 1))

    def close(self) -> None:
        pass  # the mapping goes with the last array that refers to it


class InlinePool:
    """``workers=0``."""

    workers = 0
    crashes = 0

    def __init__(self, make_work: Callable[[], Work], broken: Callable[[Exception], None]) -> None:
        self.broken = broken
        self._work = make_work()
        self._queued = 0
        self._closed = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def allocate(self, nbytes: int) -> Body:
        return HeapBody(nbytes)

    def slot_memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> SlotMemory:
        return HeapSlot(int(np.prod(shape)) * dtype.itemsize)

    def submit(self, job: Job) -> None:
        self._queued += 1
        self._loop.call_soon(self._run, job)  # between two images the sockets are served

    def _run(self, job: Job) -> None:
        self._queued -= 1
        if self._closed or job.token.cancelled:
            job.body.release()
        else:
            job.answer(self._work.run(job.body.view, job.key, job.place))

    @property
    def backlog(self) -> int:
        return self._queued

    async def close(self) -> None:
        self._closed = True
