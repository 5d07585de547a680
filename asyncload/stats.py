"""What a run has done, how fast, and which part of it was the bottleneck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

from asyncload.errors import SampleError

__all__ = ["Counters", "Stats", "Verdict"]

Verdict = Literal["network", "decode", "transform", "consumer"]


@dataclass(frozen=True, slots=True)
class Stats:
    """One epoch in figures: the current one, or the last if none is running.

    ``samples`` were delivered to the consumer's queue, ``failed`` were not; ``dropped`` were loaded but left over by
    ``drop_last``. ``reasons`` counts failures by reason code, ``retried`` counts attempts that were repeated, by the
    reason of the attempt that failed. ``bytes`` is what was downloaded or read, decoded or not. ``seconds`` is wall
    time from the start of the epoch to its end or to now; ``decode_seconds`` and ``transform_seconds`` are summed over
    the workers; ``waited_seconds`` is how long the consumer (of a session: all callers of ``load``) waited for us.
    ``worker_crashes`` counts workers that died.

    ``bottleneck`` names the part that more of would have helped: ``"consumer"`` (it was never kept waiting: the loader
    is fast enough), ``"decode"`` or ``"transform"`` (downloaded images queued for a worker), or ``"network"``
    (workers waited for images). ``None`` before anything was delivered.
    """

    epoch: int
    samples: int
    failed: int
    dropped: int
    reasons: Mapping[str, int]
    retried: Mapping[str, int]
    bytes: int
    seconds: float
    decode_seconds: float
    transform_seconds: float
    waited_seconds: float
    worker_crashes: int
    bottleneck: Verdict | None

    @property
    def images_per_second(self) -> float:
        return self.samples / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_second(self) -> float:
        """10**6 bytes of encoded images per second."""
        return self.bytes / self.seconds / 1e6 if self.seconds else 0.0

    def __str__(self) -> str:
        parts = [
            f"epoch {self.epoch}: {self.samples} samples in {self.seconds:.2f} s",
            f"{self.images_per_second:.0f} images/s, {self.megabytes_per_second:.1f} MB/s",
        ]
        if self.retried:
            parts.append(f"{sum(self.retried.values())} retried ({_list(self.retried)})")
        if self.failed:
            parts.append(f"{self.failed} failed ({_list(self.reasons)})")
        if self.worker_crashes:
            parts.append(f"{self.worker_crashes} worker crashes")
        if self.bottleneck:
            parts.append(f"bottleneck: {self.bottleneck}")
        return "; ".join(parts)


CONSUMER_WAIT_SHARE = 0.05
"""A consumer that waits for less of its time than this is the slowest part itself."""

BACKLOG_SHARE = 0.5
"""Where at least this share of images left others waiting for a worker, and"""

BUSY_SHARE = 0.5
"""the workers had work for at least this share of the time, they are the slowest part. Images that come in bursts queue
before workers that are idle most of the time."""


class Counters:
    """The figures of one epoch while they grow. Written by the event loop's thread alone, except ``waited_seconds``,
    which the consumer's thread writes."""

    def __init__(self, epoch: int, workers: int, clock: Callable[[], float] = perf_counter) -> None:
        self._workers = max(1, workers)
        self._clock = clock
        self._started = clock()
        self._ended: float | None = None
        self.epoch = epoch
        self.samples = 0
        self.dropped = 0
        self.failed = 0
        self.reasons: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self.bytes = 0
        self.decode_seconds = 0.0
        self.transform_seconds = 0.0
        self.waited_seconds = 0.0
        self.worker_crashes = 0
        self.decoded = 0
        self.queued = 0

    def fail(self, error: SampleError) -> None:
        self.failed += 1
        self.reasons[error.reason] += 1

    def add_work(self, decode_seconds: float, transform_seconds: float, *, queued: bool) -> None:
        """One image was decoded, and left others waiting behind it for a worker if ``queued``."""
        self.decoded += 1
        self.queued += queued
        self.decode_seconds += decode_seconds
        self.transform_seconds += transform_seconds

    def end(self) -> None:
        if self._ended is None:
            self._ended = self._clock()

    def copy(self) -> Counters:
        """The same figures, to be added to."""
        same = Counters(self.epoch, self._workers, self._clock)
        same._started, same._ended = self._started, self._ended
        same.add(self)
        return same

    def add(self, other: Counters) -> None:
        """Take over what ``other`` counted."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def snapshot(self) -> Stats:
        seconds = (self._clock() if self._ended is None else self._ended) - self._started
        return Stats(
            epoch=self.epoch,
            samples=self.samples,
            failed=self.failed,
            dropped=self.dropped,
            reasons=dict(self.reasons),
            retried=dict(self.retried),
            bytes=self.bytes,
            seconds=seconds,
            decode_seconds=self.decode_seconds,
            transform_seconds=self.transform_seconds,
            waited_seconds=self.waited_seconds,
            worker_crashes=self.worker_crashes,
            bottleneck=self._bottleneck(seconds),
        )

    def _bottleneck(self, seconds: float) -> Verdict | None:
        if not self.samples or not seconds:
            return None
        if self.waited_seconds < CONSUMER_WAIT_SHARE * seconds:
            return "consumer"
        busy = (self.decode_seconds + self.transform_seconds) / (self._workers * seconds)
        if self.decoded and self.queued >= BACKLOG_SHARE * self.decoded and busy >= BUSY_SHARE:
            return "transform" if self.transform_seconds > self.decode_seconds else "decode"
        return "network"


_SUMS = (
    "bytes",
    "decode_seconds",
    "decoded",
    "dropped",
    "failed",
    "queued",
    "reasons",
    "retried",
    "samples",
    "transform_seconds",
    "waited_seconds",
    "worker_crashes",
)


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items(), key=lambda pair: -pair[1]))
