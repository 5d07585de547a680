"""What is asked of a pool, what it answers, and what every executor offers."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from asyncload.errors import SampleError

__all__ = ["Body", "CancelToken", "Job", "Pool", "Result", "Row", "SlotMemory"]


class Body(Protocol):
    """Memory for one encoded image, owned by the pool that gave it. ``release`` exactly once."""

    @property
    def view(self) -> memoryview: ...

    def release(self) -> None: ...


class SlotMemory(Protocol):
    """Memory for the rows of one batch, which the pool's workers write."""

    @property
    def buffer(self) -> mmap.mmap: ...

    def close(self) -> None: ...


class Row(Protocol):
    """One row of a slot. It may get its memory after the job was submitted: workers look when they begin."""

    @property
    def number(self) -> int: ...

    @property
    def memory(self) -> SlotMemory | None: ...

    @property
    def array(self) -> NDArray[Any] | None: ...


class Result:
    """One image, done: ``value`` is the transform's result, or ``None`` if it is in the job's row.

    ``error`` is set instead where there is none. The seconds are wall time in the worker.
    """

    __slots__ = ("decode_seconds", "error", "in_row", "transform_seconds", "value")

    def __init__(
        self,
        value: Any = None,
        *,
        in_row: bool = False,
        error: SampleError | None = None,
        decode_seconds: float = 0.0,
        transform_seconds: float = 0.0,
    ) -> None:
        self.value = value
        self.in_row = in_row
        self.error = error
        self.decode_seconds = decode_seconds
        self.transform_seconds = transform_seconds


class CancelToken:
    """Shared by the jobs of one owner, who sets ``cancelled`` when their results are not wanted any more."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False


class Job:
    """One encoded image to decode and transform.

    ``key`` is (seed, epoch, index), from which alone the transform's randomness comes. ``row`` is where a result of
    its shape and dtype belongs; any other result comes back in :attr:`Result.value`. ``done`` is called in the
    pool's event loop, after the body has been released: once, or never if the job was cancelled.
    """

    __slots__ = ("body", "crashes", "done", "key", "row", "token")

    def __init__(
        self,
        body: Body,
        key: tuple[int, int, int],
        done: Callable[[Result], None],
        token: CancelToken,
        row: Row | None = None,
    ) -> None:
        self.body = body
        self.key = key
        self.done = done
        self.token = token
        self.row = row
        self.crashes = 0

    @property
    def place(self) -> NDArray[Any] | None:
        """The row's memory, if there is any by now."""
        return None if self.row is None else self.row.array

    def answer(self, result: Result) -> None:
        """Give back the body, and the result to whoever still wants it."""
        self.body.release()
        if not self.token.cancelled:
            self.done(result)


class Pool(Protocol):
    """An executor of jobs. All of it is used from one event loop.

    ``broken`` is called, once, with a ``BrokenPoolError`` when no job will be done any more; jobs that are still
    waiting are then never answered.
    """

    workers: int
    crashes: int
    broken: Callable[[Exception], None]

    async def start(self) -> None: ...

    def allocate(self, nbytes: int) -> Body:
        """Memory for a body of ``nbytes`` that a later job will name."""
        ...

    def slot_memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> SlotMemory:
        """Memory for a batch: an array of ``shape``, whose first dimension counts the rows."""
        ...

    def submit(self, job: Job) -> None:
        """Take a job. Never waits: who submits bounds how many are outstanding."""
        ...

    @property
    def backlog(self) -> int:
        """Jobs submitted that no worker has yet been given."""
        ...

    async def close(self) -> None:
        """End the workers, kindly for a second, then by force. Outstanding jobs are not answered."""
        ...
