"""Which executor: the choice of a pool, and the checks of what it is to run."""

from __future__ import annotations

import inspect
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Literal

import cloudpickle

from asyncload.decode import Decode
from asyncload.pool.inline import InlinePool
from asyncload.pool.jobs import Pool
from asyncload.pool.processes import ProcessPool
from asyncload.pool.threads import ThreadPool
from asyncload.pool.work import Work
from asyncload.types import Transform

__all__ = ["Executor", "make_pool", "usable_cores"]

Executor = Literal["process", "thread"]


def usable_cores() -> int:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def make_pool(
    transform: Transform | None,
    settings: Decode,
    *,
    workers: int | None,
    executor: Executor,
    arena_bytes: int,
    broken: Callable[[Exception], None],
) -> Pool:
    """A pool, not started. ``workers=None`` is one for each usable core, 0 is none at all.

    Raises ``TypeError`` or ``ValueError`` for a bad number, executor or transform.
    """
    if workers is None:
        workers = usable_cores()
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise TypeError(f"workers: expected an integer or None, got {workers!r}")
    if workers < 0:
        raise ValueError(f"workers: expected at least 0, got {workers}")
    if executor not in ("process", "thread"):
        raise ValueError(f'executor: expected "process" or "thread", got {executor!r}')
    if transform is not None:
        _check_transform(transform)
    make_work = partial(Work, transform, settings, shared=True)
    if workers == 0:
        return InlinePool(make_work, broken)
    if executor == "thread":
        return ThreadPool(make_work, workers, broken)
    if not hasattr(socket, "send_fds"):
        raise ValueError('executor: worker processes need a Unix system; use executor="thread"')
    try:
        pickled = _pickle((transform, settings))
    except Exception as error:  # whatever a user's __reduce__ raises
        raise TypeError(
            f"transform: cannot be sent to worker processes ({type(error).__name__}: {error}); "
            'make it picklable, or use executor="thread"'
        ) from error
    return ProcessPool(pickled, workers, arena_bytes, broken)


def _pickle(value: object) -> bytes:
    # In a process that multiprocessing spawned, the script's __main__ also goes by this name, and workers have neither.
    main = sys.modules.get("__mp_main__")
    if main is not None:
        cloudpickle.register_pickle_by_value(main)
    try:
        pickled: bytes = cloudpickle.dumps(value)
        return pickled
    finally:
        if main is not None:
            cloudpickle.unregister_pickle_by_value(main)


def _check_transform(transform: Transform) -> None:
    if not callable(transform):
        raise TypeError(f"transform: expected a callable (image, rng) -> image, got {transform!r}")
    try:
        signature = inspect.signature(transform)
    except (TypeError, ValueError):  # some callables written in C have none
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise TypeError(
            f"transform: expected a callable (image, rng) -> image, got one with the parameters {signature}; "
            "asyncload.transforms.wrap adapts a callable (image) -> image"
        ) from None
