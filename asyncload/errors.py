"""What can go wrong, and the record that is kept of it.

    AsyncloadError
    ├── SampleError          one sample; the error policy decides
    │   ├── FetchError       its bytes could not be had
    │   │   ├── ConnectError     no connection: name, route, refusal or TLS
    │   │   ├── FetchTimeout     too slow to connect, to answer, between two pieces, or in all
    │   │   ├── HTTPStatusError  an answer other than 200
    │   │   ├── PayloadError     a body that is cut short, too large, empty or not HTTP
    │   │   └── BlockedError     not allowed: address, scheme, or the owner's opt-out
    │   ├── DecodeError      its bytes are not an image that may be decoded
    │   ├── TransformError   its transform raised
    │   └── WorkerError      its decode worker died, twice
    └── PipelineError        the run
        ├── BrokenPoolError  decode workers cannot start, or keep dying
        ├── TooManyErrors    more samples failed than ``max_error_rate`` allows
        └── ClosedError      used after ``close()``

Misuse raises plain ``ValueError`` or ``TypeError``, at construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import SplitResult, urlsplit

from asyncload.types import Item

__all__ = [
    "AsyncloadError",
    "BlockedError",
    "BrokenPoolError",
    "ClosedError",
    "ConnectError",
    "DecodeError",
    "Failure",
    "FetchError",
    "FetchTimeout",
    "HTTPStatusError",
    "PayloadError",
    "PipelineError",
    "SampleError",
    "TooManyErrors",
    "TransformError",
    "WorkerError",
    "mask_url",
]


class AsyncloadError(Exception):
    """Everything that asyncload raises of its own."""


class SampleError(AsyncloadError):
    """One sample could not be delivered.

    ``reason`` is a stable code in lower case (``"dns"``, ``"http_status"``, ``"truncated"``, ...), ``status`` the last
    HTTP status if there was an answer, ``attempts`` the number of requests made, ``bytes`` how much of the body was
    received by the last of them, ``seconds`` the time from the first attempt to the end.
    """

    stage: ClassVar[str] = "sample"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "unknown",  # torch makes the error of a DataLoader worker again from its message alone
        status: int | None = None,
        attempts: int = 0,
        bytes: int = 0,
        seconds: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.attempts = attempts
        self.bytes = bytes
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from their positional arguments, and ours are keywords: users do send them across
        # processes (a DataLoader worker's error travels to the trainer so).
        return _rebuild, (type(self), str(self), self.reason), vars(self)


def _rebuild(cls: type[SampleError], message: str, reason: str) -> SampleError:
    return cls(message, reason=reason)


class FetchError(SampleError):
    """The bytes of an image could not be had. Reasons of its own: ``bad_url``, ``file_not_found``, ``file``.

    ``retried`` has the reason of each attempt that was followed by another.
    """

    stage = "fetch"
    retried: tuple[str, ...] = ()


class ConnectError(FetchError):
    """No connection. Reasons: ``dns``, ``connect``, ``tls``."""


class FetchTimeout(FetchError):
    """Too slow. Reasons: ``connect_timeout``, ``read_timeout``, ``timeout``, ``too_slow``, ``deadline``."""


class HTTPStatusError(FetchError):
    """An answer other than 200. Reason: ``http_status``; the number is in ``status``."""


class PayloadError(FetchError):
    """A body that cannot be used. Reasons: ``truncated``, ``too_large``, ``empty``, ``protocol``."""


class BlockedError(FetchError):
    """A request that may not be made, or an answer that may not be used.

    Reasons: ``blocked_address``, ``blocked_scheme``, ``bad_redirect``, ``too_many_redirects``, ``robots``.
    """


class DecodeError(SampleError):
    """Not an image that may be decoded.

    Reasons: ``not_image``, ``unsupported_format``, ``corrupt``, ``truncated``, ``too_many_pixels``,
    ``too_many_scans``.
    """

    stage = "decode"


class TransformError(SampleError):
    """The transform raised, or returned something that cannot be delivered. Reasons: ``raised``, ``bad_result``."""

    stage = "transform"


class WorkerError(SampleError):
    """The decode worker died while it had this sample, and died again when it had it once more.

    Reason: ``worker_crash``.
    """

    stage = "worker"


class PipelineError(AsyncloadError):
    """The run cannot go on."""


class BrokenPoolError(PipelineError):
    """Decode workers cannot start, or die without getting anything done."""


class TooManyErrors(PipelineError):
    """More of the samples failed than ``max_error_rate`` allows."""


class ClosedError(PipelineError):
    """The loader or session was closed before this call, or during it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is kept of a sample that was not delivered: plain data, never a live exception.

    ``index`` is its position in the source; ``url`` is masked (see :func:`mask_url`), so that a list of failures can
    be logged or sent to somebody: ``source[failure.index].url`` is the original. ``stage`` is ``"fetch"``,
    ``"decode"``, ``"transform"`` or ``"worker"``; the other fields are those of :class:`SampleError`.
    """

    index: int
    url: str
    stage: str
    reason: str
    status: int | None
    attempts: int
    bytes: int
    seconds: float
    message: str

    @classmethod
    def of(cls, item: Item, error: SampleError) -> Failure:
        """The record of ``error``, met while loading ``item``."""
        return cls(
            index=item.index,
            url=mask_url(item.url),
            stage=error.stage,
            reason=error.reason,
            status=error.status,
            attempts=error.attempts,
            bytes=error.bytes,
            seconds=error.seconds,
            message=str(error),
        )


def mask_url(url: str) -> str:
    """``url`` without its secrets: no user name, password or fragment, and ``***`` for each value of the query."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:  # an unbalanced bracket in the host, say; nothing in it can be trusted to be harmless
        return "(malformed URL)"
    query = "&".join(_mask_parameter(part) for part in parts.query.split("&") if part)
    return SplitResult(parts.scheme, host, parts.path, query, "").geturl()


def _mask_parameter(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}=***" if equals else "***"
