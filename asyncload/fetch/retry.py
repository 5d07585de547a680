"""When to try again, and how long to wait before it: pure functions.

Full jitter, a random part of a back-off that doubles, spreads the attempts of many clients best
(https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from random import Random

from asyncload.errors import FetchError

__all__ = ["MAX_RETRY_AFTER", "RETRYABLE_STATUSES", "backoff", "may_retry", "retry_after"]

RETRYABLE_STATUSES = frozenset([408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524])
"""Statuses that pass: overload, a restart behind a proxy, and those of CDNs for an origin out of reach."""

MAX_RETRY_AFTER = 60.0
"""Seconds. A server that asks for a longer pause is not waited for."""

_THROTTLED = frozenset([429, 503])
_BASE = 0.1  # seconds
_BASE_THROTTLED = 1.0
_MAX_BACKOFF = 20.0

_RETRYABLE = frozenset(["connect", "connect_timeout", "read_timeout", "timeout", "truncated"])
_RETRYABLE_ONCE = frozenset(["dns", "empty", "too_slow"])  # each may pass, but hardly ever does


def may_retry(error: FetchError, before: tuple[str, ...], retries: int) -> bool:
    """Whether to try again after ``error``; ``before`` are the reasons of the attempts that were repeated already."""
    if len(before) >= retries:
        return False
    if error.reason == "http_status":
        return error.status in RETRYABLE_STATUSES
    return error.reason in _RETRYABLE or (error.reason in _RETRYABLE_ONCE and error.reason not in before)


def backoff(status: int | None, retry: int, rng: Random) -> float:
    """Seconds to wait before the ``retry``-th further attempt (from 0), after an answer of ``status`` or none."""
    base = _BASE_THROTTLED if status in _THROTTLED else _BASE
    return rng.random() * min(base * 2.0 ** min(retry, 10), _MAX_BACKOFF)


def retry_after(value: str, now: float) -> float | None:
    """Seconds that the header ``Retry-After: value`` asks for, or ``None`` if it cannot be understood.

    ``value`` is a number of seconds or a date (RFC 9110, section 10.2.3); ``now`` is in seconds since the epoch.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)  # not int(): it refuses long numbers, and a float may well be infinite
    try:
        return max(parsedate_to_datetime(value).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return None
