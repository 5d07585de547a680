from __future__ import annotations

import pytest

from asyncload.errors import DecodeError, FetchTimeout
from asyncload.stats import Counters


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rates_are_per_second_of_the_epoch() -> None:
    clock = Clock()
    counters = Counters(3, 1, clock)
    counters.samples, counters.bytes = 50, 10_000_000
    clock.now += 2
    stats = counters.snapshot()
    assert (stats.epoch, stats.images_per_second, stats.megabytes_per_second) == (3, 25, 5)
    counters.end()
    clock.now += 100
    counters.end()
    assert counters.snapshot().seconds == 2


def test_nothing_yet_is_no_division_by_zero() -> None:
    stats = Counters(0, 1, Clock()).snapshot()
    assert (stats.images_per_second, stats.megabytes_per_second, stats.bottleneck) == (0, 0, None)
    assert str(stats) == "epoch 0: 0 samples in 0.00 s; 0 images/s, 0.0 MB/s"


@pytest.mark.parametrize(
    ("waited", "queued", "decode", "transform", "verdict"),
    [
        (0.1, 90, 5.0, 1.0, "consumer"),
        (5.0, 90, 5.0, 1.0, "decode"),
        (5.0, 90, 1.0, 5.0, "transform"),
        (5.0, 10, 5.0, 1.0, "network"),
        (5.0, 90, 0.3, 0.1, "network"),  # they queued, but in a burst: the workers were idle most of the time
    ],
)
def test_the_slowest_part_is_named(waited: float, queued: int, decode: float, transform: float, verdict: str) -> None:
    clock = Clock()
    counters = Counters(0, 1, clock)
    counters.samples = counters.decoded = 100
    counters.waited_seconds, counters.queued = waited, queued
    counters.decode_seconds, counters.transform_seconds = decode, transform
    clock.now += 10
    assert counters.snapshot().bottleneck == verdict


def test_without_decoding_it_is_the_network_or_the_consumer() -> None:
    clock = Clock()
    counters = Counters(0, 1, clock)
    counters.samples = 100
    counters.waited_seconds = 9.0
    clock.now += 10
    assert counters.snapshot().bottleneck == "network"


def test_the_line_names_what_was_retried_and_what_failed() -> None:
    counters = Counters(1, 1, Clock())
    counters.samples = 2
    counters.fail(FetchTimeout("slow", reason="read_timeout"))
    for _ in range(2):
        counters.fail(DecodeError("bad", reason="corrupt"))
    counters.retried.update(["connect"])
    line = str(counters.snapshot())
    assert "1 retried (1 connect); 3 failed (2 corrupt, 1 read_timeout)" in line


def test_counters_add_up() -> None:
    a, b = Counters(0, 1, Clock()), Counters(1, 1, Clock())
    a.samples, b.samples = 3, 4
    a.retried.update(["dns"])
    b.retried.update(["dns", "tls"])
    total = a.copy()
    total.add(b)
    assert total.samples == 7
    assert total.retried == {"dns": 2, "tls": 1}
    assert a.retried == {"dns": 1}
