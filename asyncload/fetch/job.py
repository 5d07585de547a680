"""What is kept of one URL on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from yarl import URL

__all__ = ["Buffer", "Job"]

Buffer: TypeAlias = bytearray | memoryview


class Job:
    """One URL, through all its attempts.

    ``status`` and ``received`` (bytes of body) are those of the last request. ``spent`` is what attempts and pauses
    took so far, in seconds, without the time spent queueing. ``asked_pause`` is the Retry-After of the last answer.
    ``allocate`` gives the buffer for a body, once its length is known.
    """

    __slots__ = ("allocate", "asked_pause", "headers", "received", "spent", "status", "url")

    def __init__(self, url: URL, headers: Mapping[str, str] | None, allocate: Callable[[int], Buffer]) -> None:
        self.url = url
        self.headers = headers
        self.allocate = allocate
        self.status: int | None = None
        self.received = 0
        self.spent = 0.0
        self.asked_pause = 0.0
