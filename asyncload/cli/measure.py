"""One epoch of a loader, with a clock beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from rich.console import Console

from asyncload.cli import ctrl_c
from asyncload.cli.terminal import progress
from asyncload.errors import Failure, PipelineError
from asyncload.loader import Loader
from asyncload.stats import Counters, Stats
from asyncload.types import Batch

__all__ = ["Epoch", "measure"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """What became of an epoch, as far as it came.

    ``arrivals`` has, for each batch, the seconds since the epoch was asked for (the first includes the start of the
    workers), and how many samples had been delivered by then. ``error`` is what ended the epoch early.
    """

    stats: Stats
    failures: list[Failure]
    arrivals: list[tuple[float, int]]
    error: PipelineError | KeyboardInterrupt | None

    @property
    def first_batch_seconds(self) -> float | None:
        return self.arrivals[0][0] if self.arrivals else None

    def seconds_until(self, share: float) -> float:
        """When that share of the samples had been delivered. There must be some."""
        delivered = self.arrivals[-1][1]
        return next(seconds for seconds, samples in self.arrivals if samples >= share * delivered)


def measure(
    loader: Loader, console: Console, title: str, total: int, take: Callable[[Batch], object] | None = None
) -> Epoch:
    """Iterate over ``loader`` once, with progress on ``console``, and hand each batch to ``take``.

    Ctrl-C and the end of the pipeline become the ``error`` of the epoch, so that what was measured is not lost.
    """
    arrivals: list[tuple[float, int]] = []
    samples = 0
    error: PipelineError | KeyboardInterrupt | None = None

    def state() -> tuple[int, str]:
        stats = loader.stats()
        counts = [f"{stats.images_per_second:,.0f} images/s"]
        counts += [f"{sum(stats.retried.values()):,} retried"] if stats.retried else []
        counts += [f"{stats.failed:,} failed"] if stats.failed else []
        return stats.samples + stats.failed, ", ".join(counts)

    batches = None
    started = perf_counter()
    try:
        batches = iter(loader)
        with _unlogged(), progress(console, title, total, state):
            for batch in batches:
                ctrl_c.check()
                samples += len(batch)
                arrivals.append((perf_counter() - started, samples))
                if take is not None:
                    take(batch)
    except (KeyboardInterrupt, PipelineError) as reason:
        error = reason
    finally:
        if batches is not None:
            batches.close()
    if batches is None:  # and what the loader has are the figures of the epoch before
        return Epoch(Counters(0, 0).snapshot(), [], [], error)
    return Epoch(loader.stats(), loader.failures, arrivals, error)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Without the pipeline's warnings of what the summary says."""
    logger = logging.getLogger("asyncload")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
