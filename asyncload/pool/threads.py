"""Workers in threads of this process: the codecs release the GIL, and nothing is started that could outlive us.

For Windows, notebooks, free-threaded Python, and the inside of a torch DataLoader worker, which may have no children.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np

from asyncload.pool.inline import HeapBody, HeapSlot
from asyncload.pool.jobs import Body, Job, SlotMemory
from asyncload.pool.work import Work

__all__ = ["ThreadPool"]

CLOSE_TIMEOUT = 1.0
"""Seconds that ``close`` waits for threads that are in the middle of an image. A thread cannot be killed."""


class ThreadPool:
    """``executor="thread"``."""

    crashes = 0

    def __init__(self, make_work: Callable[[], Work], workers: int, broken: Callable[[Exception], None]) -> None:
        self.workers = workers
        self.broken = broken
        self._make_work = make_work
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._running = self.workers
        for number in range(self.workers):
            # Daemons, because a transform that hangs must not keep the interpreter from ending.
            thread = threading.Thread(target=self._serve, name=f"asyncload-decode-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def allocate(self, nbytes: int) -> Body:
        return HeapBody(nbytes)

    def slot_memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> SlotMemory:
        return HeapSlot(int(np.prod(shape)) * dtype.itemsize)

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    @property
    def backlog(self) -> int:
        return self._jobs.qsize()

    async def close(self) -> None:
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        if self._threads:
            try:
                await asyncio.wait_for(self._ended.wait(), CLOSE_TIMEOUT)
            except TimeoutError:
                return
            for thread in self._threads:
                thread.join()
            self._threads.clear()

    def _serve(self) -> None:
        work = self._make_work()
        while (job := self._jobs.get()) is not None:
            if self._closed or job.token.cancelled:
                job.body.release()
            else:
                self._tell(job.answer, work.run(job.body.view, job.key, job.place))
        self._tell(self._count_down)

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            pass  # the loop closed while a transform was hanging: nobody is waiting for the answer

    def _count_down(self) -> None:
        self._running -= 1
        if not self._running:
            self._ended.set()
