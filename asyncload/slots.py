"""Memory for batches, which the decode workers write directly.

A slot is memory for one batch, one row for each sample. It is delivered as an array over its rows and written again
only when nothing refers to that array any more; until then other slots are used, so a consumer may keep what it gets.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncload.pool.jobs import SlotMemory

__all__ = ["Row", "Slot", "Slots", "Spec"]

NewMemory = Callable[[tuple[int, ...], np.dtype[Any]], SlotMemory]


class Spec(NamedTuple):
    """What one sample is, if it is an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, value: NDArray[Any]) -> Spec:
        return cls(value.shape, value.dtype)


class Slot:
    """Rows for one batch. It has no memory until the first sample has told what a row is."""

    __slots__ = ("_recycle", "memory", "rows", "spec", "unused")

    def __init__(self, rows: int) -> None:
        self.unused = rows
        self.spec: Spec | None = None
        self.memory: SlotMemory | None = None
        self.rows: NDArray[Any] | None = None
        self._recycle: weakref.ref[NDArray[Any]] | None = None

    def array(self, rows: int) -> NDArray[Any]:
        """A new array over the slot's memory. Its base is no array, so every view of it refers to itself."""
        assert self.memory is not None
        assert self.spec is not None
        return np.ndarray((rows, *self.spec.shape), self.spec.dtype, buffer=self.memory.buffer)

    def deliver(self, rows: int, recycle: Callable[[Slot], None]) -> NDArray[Any]:
        """The first ``rows`` rows. ``recycle`` is called, in any thread, when nothing refers to them any more."""
        array = self.array(rows)
        self._recycle = weakref.ref(array, lambda _: recycle(self))
        return array


class Row(NamedTuple):
    """One place in a slot."""

    slot: Slot
    number: int

    @property
    def memory(self) -> SlotMemory | None:
        """The memory of the whole slot, once it is known how much that is."""
        return self.slot.memory

    @property
    def array(self) -> NDArray[Any] | None:
        """Its own memory."""
        return None if self.slot.rows is None else self.slot.rows[self.number]


class Slots:
    """Gives out slots of ``rows`` rows, and takes them back when their arrays are gone.

    ``spares`` slots are kept for reuse; what comes back beyond that is given up.
    """

    def __init__(self, rows: int, new_memory: NewMemory, spares: int) -> None:
        self._rows = rows
        self._new_memory = new_memory
        self._spares = spares
        self._spec: Spec | None = None
        self._in_use: set[Slot] = set()
        self._free: list[Slot] = []
        self._returned: deque[Slot] = deque()  # filled by whichever thread drops the last reference

    def open(self) -> Slot:
        """A slot to fill. Never waits: what the consumer keeps is the consumer's."""
        while self._returned:
            self._give_up(self._returned.popleft(), keep=True)
        slot = self._free.pop() if self._free else Slot(self._rows)
        slot.unused = self._rows
        self._in_use.add(slot)
        self._equip(slot)
        return slot

    def settle(self, value: Any, row: Row) -> bool:
        """Put a value that came without its row into the row. Returns whether it belongs there."""
        if not isinstance(value, np.ndarray):
            return False
        if self._spec is None:  # the first sample: now it is known what a row is
            self._spec = Spec.of(value)
            for slot in self._in_use:
                self._equip(slot)
        place = row.array
        if place is None or Spec.of(value) != self._spec:
            return False
        np.copyto(place, value)
        return True

    def deliver(self, slot: Slot, rows: int) -> NDArray[Any]:
        return slot.deliver(rows, self._returned.append)

    def release(self, row: Row) -> None:
        """A row whose content has been copied, or never came. The slot is free when all its rows are."""
        row.slot.unused -= 1
        if not row.slot.unused:
            self._give_up(row.slot, keep=True)

    def close(self) -> None:
        """Give up all slots. Arrays that were delivered stay valid for as long as anything refers to them."""
        self._returned.clear()
        for slot in [*self._in_use, *self._free]:
            self._give_up(slot, keep=False)
        self._free.clear()

    def _equip(self, slot: Slot) -> None:
        if self._spec is not None and slot.memory is None:
            slot.spec = self._spec
            slot.memory = self._new_memory((self._rows, *self._spec.shape), self._spec.dtype)
            slot.rows = slot.array(self._rows)

    def _give_up(self, slot: Slot, *, keep: bool) -> None:
        self._in_use.discard(slot)
        if keep and len(self._free) < self._spares:
            self._free.append(slot)
            return
        slot.rows = None
        if slot.memory is not None:
            slot.memory.close()
            slot.memory = None
