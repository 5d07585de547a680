"""The fixed-size records that the parent and a worker process exchange over their socket pair.

Numbers and short texts only: bodies, pixels and results are in shared memory, whose descriptors travel attached to the
record that first needs them.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

__all__ = ["COMMAND_BYTES", "REPORT_BYTES", "Command", "Kind", "Report"]

_COMMAND = struct.Struct("<BBIIBQQQQQ8I16s")
_REPORT = struct.Struct("<BBBQdd24s400s")
COMMAND_BYTES = _COMMAND.size
REPORT_BYTES = _REPORT.size


class Kind(IntEnum):
    # parent to worker
    START = 1  # two descriptors: the arena, and the pickled work
    SLOT = 2  # one descriptor: a batch slot; ``text`` is the dtype, ``shape`` its whole shape
    FORGET_SLOT = 3
    JOB = 4  # one descriptor if the body has a segment of its own
    # worker to parent
    READY = 10
    FATAL = 11  # the work could not be loaded; ``text`` says why
    IN_SLOT = 12  # the result is in its row
    IN_OUTBOX = 13  # the result is in the outbox; one descriptor if the outbox is new
    DECODE_ERROR = 14  # ``reason`` and ``text`` are the error's
    TRANSFORM_ERROR = 15


class Command(NamedTuple):
    """What the parent sends. Unused fields are 0."""

    kind: Kind
    outbox: int = 0  # which of the worker's outboxes takes a result that has no row
    slot: int = 0  # 0: no row
    row: int = 0
    private: int = 0  # 1: the body is in the attached descriptor, not in the arena
    offset: int = 0
    nbytes: int = 0
    seed: int = 0
    epoch: int = 0
    item: int = 0  # the index of the sample
    shape: tuple[int, ...] = ()
    text: bytes = b""

    def pack(self) -> bytes:
        shape = (len(self.shape), *self.shape, 0, 0, 0, 0, 0, 0, 0)[:8]
        return _COMMAND.pack(*self[:10], *shape, self.text)

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Command:
        kind, outbox, slot, row, private, offset, nbytes, seed, epoch, item, ndim, *sides, text = _COMMAND.unpack(data)
        shape = tuple(sides[:ndim])
        return cls(Kind(kind), outbox, slot, row, private, offset, nbytes, seed, epoch, item, shape, text.rstrip(b"\0"))


class Report(NamedTuple):
    """What a worker sends. ``decode_seconds`` and ``transform_seconds`` are wall time."""

    kind: Kind
    outbox: int = 0
    replaced: int = 0  # 1: a new outbox is attached
    nbytes: int = 0
    decode_seconds: float = 0.0
    transform_seconds: float = 0.0
    reason: bytes = b""
    text: bytes = b""

    def pack(self) -> bytes:
        return _REPORT.pack(*self)

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Report:
        kind, outbox, replaced, nbytes, decoding, transforming, reason, text = _REPORT.unpack(data)
        return cls(
            Kind(kind), outbox, replaced, nbytes, decoding, transforming, reason.rstrip(b"\0"), text.rstrip(b"\0")
        )
