from __future__ import annotations

from random import Random

import pytest

from asyncload.errors import FetchError
from asyncload.fetch.retry import backoff, may_retry, retry_after


@pytest.mark.parametrize(
    ("reason", "status", "times"),
    [
        ("connect", None, 3),
        ("connect_timeout", None, 3),
        ("read_timeout", 200, 3),
        ("timeout", 200, 3),
        ("truncated", 200, 3),
        ("dns", None, 1),
        ("empty", 200, 1),
        ("too_slow", 200, 1),
        ("tls", None, 0),
        ("protocol", None, 0),
        ("too_large", 200, 0),
        ("blocked_address", None, 0),
        ("robots", 200, 0),
        ("bad_url", None, 0),
        *[("http_status", status, 3) for status in (408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524)],
        *[("http_status", status, 0) for status in (206, 304, 400, 401, 403, 404, 410, 416, 451, 501, 505, 525)],
    ],
)
def test_how_often_a_failure_is_tried_again(reason: str, status: int | None, times: int) -> None:
    error = FetchError("", reason=reason, status=status)
    before: tuple[str, ...] = ()
    while may_retry(error, before, retries=3):
        before += (reason,)
    assert len(before) == times
    assert not may_retry(error, (), retries=0)


def test_what_may_be_tried_once_may_be_tried_again_between_others() -> None:
    assert may_retry(FetchError("", reason="dns"), ("connect",), retries=3)
    assert not may_retry(FetchError("", reason="dns"), ("dns", "connect"), retries=3)


class _Most(Random):
    def random(self) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("status", "expected"), [(None, [0.1, 0.2, 0.4, 0.8]), (500, [0.1, 0.2]), (429, [1, 2, 4]), (503, [1, 2, 4, 8])]
)
def test_the_back_off_doubles(status: int | None, expected: list[float]) -> None:
    assert [backoff(status, retry, _Most()) for retry in range(len(expected))] == expected


def test_the_back_off_is_bounded_and_fully_random() -> None:
    assert backoff(503, 30, _Most()) == 20.0
    assert backoff(503, 2000, _Most()) == 20.0
    rng = Random(1)
    drawn = [backoff(503, 10, rng) for _ in range(1000)]
    assert min(drawn) < 0.1
    assert max(drawn) > 19.9


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("9" * 5000, float("inf")),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("Thursday, 01-Jan-70 00:01:40 GMT", 90.0),
        ("", None),
        ("-5", None),
        ("1e9", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("Thu, 99 Jan 1970 00:01:40 GMT", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after(value, now=10.0) == seconds
