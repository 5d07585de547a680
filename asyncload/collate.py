"""From results to what is delivered: samples or batches, as they complete or in the order of the source."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from asyncload.slots import Row, Slot, Slots, Spec
from asyncload.types import Batch, Item, Sample

__all__ = ["Collator", "Loaded", "make_collator"]

Emit = Callable[[Sample | Batch], None]
"""Delivers one output."""


class Loaded(NamedTuple):
    """A sample that is done. Its image is ``value``, or, if ``in_row``, what is in ``row``."""

    item: Item
    value: Any
    row: Row | None = None
    in_row: bool = False

    def sample(self) -> Sample:
        return Sample(self.item.index, self.item.url, self.item.label, self.value)


class Collator(Protocol):
    """Every sequence number, from 0 without a gap, is given to ``add`` or to ``leave_out`` exactly once."""

    def row(self, sequence: int) -> Row | None:
        """Where the image of this sequence number will be written, if it goes into a batch."""
        ...

    def add(self, sequence: int, loaded: Loaded) -> None: ...

    def leave_out(self, sequence: int, row: Row | None) -> None:
        """There will be no image with this sequence number. ``row`` is the one it was given, if it was."""
        ...

    def load(self, sequence: int, decoding: int) -> int:
        """How many samples would have been decoded, delivered or not, before this one if it were decoded now."""
        ...

    def finish(self) -> int:
        """Deliver what is left over. Returns how many samples were dropped instead."""
        ...


def make_collator(
    emit: Emit, slots: Slots | None, batch_size: int | None, *, ordered: bool, drop_last: bool
) -> Collator:
    """``slots`` have rows for a batch each; both are ``None`` where samples are delivered one by one."""
    if batch_size is None or slots is None:
        return _InOrder(_Samples(emit)) if ordered else _Samples(emit)
    if ordered:
        return _InOrder(_Sequence(emit, slots, batch_size, drop_last))
    return _Batches(emit, slots, batch_size, drop_last)


class _Samples:
    """One by one, as they complete."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._added = 0

    def row(self, sequence: int) -> Row | None:
        return None

    def add(self, sequence: int, loaded: Loaded) -> None:
        self._added += 1
        self._emit(loaded.sample())

    def leave_out(self, sequence: int, row: Row | None) -> None:
        pass

    def load(self, sequence: int, decoding: int) -> int:
        return self._added + decoding

    def finish(self) -> int:
        return 0


class _Batches:
    """Batches of whatever completes first. A row that stays empty is given to the next sample that comes."""

    def __init__(self, emit: Emit, slots: Slots, batch_size: int, drop_last: bool) -> None:
        self._emit = emit
        self._slots = slots
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._slot: Slot | None = None  # the last one opened, of which so many rows are given away:
        self._given = 0
        self._vacant: deque[Row] = deque()  # rows that were given away and stayed empty
        self._filling: dict[Slot, list[Loaded]] = {}
        self._added = 0

    def row(self, sequence: int) -> Row | None:
        if self._vacant:
            return self._vacant.popleft()
        if self._slot is None or self._given == self._batch_size:
            self._slot, self._given = self._slots.open(), 0
            self._filling[self._slot] = []
        self._given += 1
        return Row(self._slot, self._given - 1)

    def add(self, sequence: int, loaded: Loaded) -> None:
        assert loaded.row is not None
        self._added += 1
        slot = loaded.row.slot
        batch = self._filling[slot]
        batch.append(loaded)
        if len(batch) == self._batch_size:
            del self._filling[slot]
            self._deliver(batch)

    def leave_out(self, sequence: int, row: Row | None) -> None:
        if row is not None:
            self._vacant.append(row)

    def load(self, sequence: int, decoding: int) -> int:
        return self._added + decoding

    def finish(self) -> int:
        left = [loaded for batch in self._filling.values() for loaded in sorted(batch, key=_row_number)]
        self._filling.clear()
        for start in range(0, len(left), self._batch_size):
            batch = left[start : start + self._batch_size]
            if len(batch) < self._batch_size and self._drop_last:
                return len(batch)
            self._deliver(batch)
        return 0

    def _deliver(self, batch: list[Loaded]) -> None:
        self._emit(_collate(sorted(batch, key=_row_number), self._slots))


class _Sequence:
    """Batches of what it is given, in that order, each sample in the row that its sequence number says."""

    def __init__(self, emit: Emit, slots: Slots, batch_size: int, drop_last: bool) -> None:
        self._emit = emit
        self._slots = slots
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._open: dict[int, tuple[Slot, int]] = {}  # by batch: its slot, and how many of its rows are left
        self._batch: list[Loaded] = []
        self._added = 0

    def row(self, sequence: int) -> Row | None:
        batch, number = divmod(sequence, self._batch_size)
        if batch not in self._open:
            self._open[batch] = self._slots.open(), self._batch_size
        slot, left = self._open.pop(batch)
        if left > 1:
            self._open[batch] = slot, left - 1
        return Row(slot, number)

    def add(self, sequence: int, loaded: Loaded) -> None:
        self._added += 1
        self._batch.append(loaded)
        if len(self._batch) == self._batch_size:
            self._deliver()

    def leave_out(self, sequence: int, row: Row | None) -> None:
        empty = row or self.row(sequence)
        assert empty is not None
        self._slots.release(empty)

    def load(self, sequence: int, decoding: int) -> int:
        return self._added

    def finish(self) -> int:
        if self._drop_last or not self._batch:
            return len(self._batch)
        self._deliver()
        return 0

    def _deliver(self) -> None:
        batch, self._batch = self._batch, []
        self._emit(_collate(batch, self._slots))


class _InOrder:
    """Holds back what completes too early, and hands it to ``inner`` when its turn comes."""

    def __init__(self, inner: Collator) -> None:
        self._inner = inner
        self._next = 0
        self._early: dict[int, Loaded | None] = {}

    def row(self, sequence: int) -> Row | None:
        return self._inner.row(sequence)

    def add(self, sequence: int, loaded: Loaded) -> None:
        self._early[sequence] = loaded
        self._release()

    def leave_out(self, sequence: int, row: Row | None) -> None:
        self._inner.leave_out(sequence, row)
        self._early[sequence] = None
        self._release()

    def load(self, sequence: int, decoding: int) -> int:
        # Whatever is decoded before its turn, the next in turn always finds room: order cannot end in a deadlock.
        return self._inner.load(sequence, 0) + sequence - self._next

    def finish(self) -> int:
        return self._inner.finish()

    def _release(self) -> None:
        while self._next in self._early:
            loaded = self._early.pop(self._next)
            if loaded is not None:
                self._inner.add(self._next, loaded)
            self._next += 1


def _row_number(loaded: Loaded) -> int:
    assert loaded.row is not None
    return loaded.row.number


def _collate(batch: list[Loaded], slots: Slots) -> Batch:
    return Batch(
        images=_images(batch, slots),
        labels=_labels([loaded.item.label for loaded in batch]),
        indices=np.array([loaded.item.index for loaded in batch], dtype=np.int64),
        urls=[loaded.item.url for loaded in batch],
    )


def _images(batch: list[Loaded], slots: Slots) -> Any:
    """A view of their slot where the images fill its rows from the first on, else a copy."""
    first = batch[0].row
    assert first is not None
    if all(loaded.in_row and loaded.row == (first.slot, number) for number, loaded in enumerate(batch)):
        return slots.deliver(first.slot, len(batch))
    values: list[Any] = [loaded.row.array if loaded.in_row and loaded.row else loaded.value for loaded in batch]
    if all(isinstance(value, np.ndarray) for value in values) and len(set(map(Spec.of, values))) == 1:
        images: Any = np.stack(values)
    else:
        images = [v.copy() if loaded.in_row else v for v, loaded in zip(values, batch, strict=True)]
    for loaded in batch:
        if loaded.row is not None:
            slots.release(loaded.row)
    return images


def _labels(labels: list[Any]) -> Any:
    if all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in labels):
        try:
            return np.array(labels, dtype=np.int64)
        except OverflowError:  # an identifier of 64 bits without a sign, say: kept as it is
            pass
    return labels
