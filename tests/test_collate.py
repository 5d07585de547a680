from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncload.collate import Loaded, make_collator
from asyncload.pool.inline import HeapSlot
from asyncload.slots import Row, Slots
from asyncload.types import Batch, Item, Sample

SHAPE = (2, 3, 3)


class Memory:
    """Slots in ordinary memory, counted."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = 0

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HeapSlot:
        self.made += 1
        memory = self

        class Slot(HeapSlot):
            def close(self) -> None:
                memory.closed += 1

        return Slot(int(np.prod(shape)) * dtype.itemsize)


class Line:
    """A collator at work: what is decoded by hand here, a pool does otherwise."""

    def __init__(self, batch_size: int | None, *, ordered: bool = False, drop_last: bool = False) -> None:
        self.out: list[Any] = []
        self.memory = Memory()
        self.slots = None if batch_size is None else Slots(batch_size, self.memory.new, spares=2)
        self.collator = make_collator(self.out.append, self.slots, batch_size, ordered=ordered, drop_last=drop_last)

    def row(self, sequence: int) -> Row | None:
        return self.collator.row(sequence)

    def complete(self, sequence: int, row: Row | None, shape: tuple[int, ...] = SHAPE, label: Any = None) -> None:
        """The image ``sequence``, whose pixels are its number: in its row where it fits, as a pool would do it."""
        value = np.full(shape, sequence % 251, np.uint8)
        place = row.array if row is not None else None
        if place is not None and place.shape == shape:
            place[:] = value
            loaded = Loaded(Item(sequence, f"u{sequence}", label), None, row, True)
        elif row is not None and self.slots is not None:
            loaded = Loaded(Item(sequence, f"u{sequence}", label), value, row, self.slots.settle(value, row))
        else:
            loaded = Loaded(Item(sequence, f"u{sequence}", label), value)
        self.collator.add(sequence, loaded)

    def run(self, count: int, completion: list[int], failing: set[int]) -> int:
        """All of ``count`` are given rows in order, and complete in the order ``completion``."""
        rows = {sequence: self.row(sequence) for sequence in range(count)}
        for sequence in completion:
            if sequence in failing:
                self.collator.leave_out(sequence, rows[sequence])
            else:
                self.complete(sequence, rows[sequence])
        return self.collator.finish()


def check(batch: Batch) -> list[int]:
    """Whether each image is the one that its index says. Returns the indices."""
    indices = batch.indices.tolist()
    assert batch.urls == [f"u{index}" for index in indices]
    for image, index in zip(batch.images, indices, strict=True):
        assert (image == index % 251).all()
    return [int(index) for index in indices]


@st.composite
def epochs(draw: st.DrawFn) -> tuple[int, int, list[int], set[int]]:
    count = draw(st.integers(0, 40))
    completion = draw(st.permutations(range(count)))
    failing = draw(st.sets(st.integers(0, max(0, count - 1)), max_size=12)) if count else set()
    return draw(st.integers(1, 9)), count, completion, failing


@given(epochs(), st.booleans(), st.booleans())
def test_every_sample_is_in_one_batch_with_its_own_pixels(
    epoch: tuple[int, int, list[int], set[int]], ordered: bool, drop_last: bool
) -> None:
    batch_size, count, completion, failing = epoch
    line = Line(batch_size, ordered=ordered, drop_last=drop_last)
    dropped = line.run(count, completion, failing)
    indices = [index for batch in line.out for index in check(batch)]
    good = [index for index in range(count) if index not in failing]
    sizes = list(map(len, line.out))
    assert all(size == batch_size for size in sizes[:-1])
    if drop_last:
        assert dropped == len(good) % batch_size
        assert all(size == batch_size for size in sizes)
    else:
        assert dropped == 0
        assert sorted(indices) == good
    assert len(indices) + dropped == len(good)
    assert len(set(indices)) == len(indices)
    if ordered:
        assert indices == good[: len(indices)]


@given(epochs())
def test_samples_in_order_wait_for_their_turn_and_no_longer(epoch: tuple[int, int, list[int], set[int]]) -> None:
    _, _, completion, failing = epoch
    line = Line(None, ordered=True)
    arrived: set[int] = set()
    for sequence in completion:
        if sequence in failing:
            line.collator.leave_out(sequence, None)
        else:
            line.complete(sequence, None)
        arrived.add(sequence)
        ready = next((n for n in range(len(completion) + 1) if n not in arrived), 0)
        assert [sample.index for sample in line.out] == [n for n in range(ready) if n not in failing]


def test_samples_are_delivered_as_they_complete() -> None:
    line = Line(None)
    for sequence in (2, 0, 1):
        line.complete(sequence, None)
    assert [sample.index for sample in line.out] == [2, 0, 1]
    assert isinstance(line.out[0], Sample)


@pytest.mark.parametrize("ordered", [False, True])
def test_batches_are_views_of_their_slots(ordered: bool) -> None:
    line = Line(4, ordered=ordered)
    line.run(8, list(range(8)), set())
    assert line.memory.made == 2
    for batch in line.out:
        assert not batch.images.flags.owndata


def test_a_slot_is_used_again_only_when_nothing_refers_to_its_array() -> None:
    line = Line(2)
    kept = []
    for start in range(0, 40, 2):
        for sequence in (start, start + 1):
            line.complete(sequence, line.row(sequence))
        batch = line.out.pop()
        if start == 10:
            kept.append(batch.images[1:, ::-1])  # a view of a view
        del batch
        gc.collect()
    assert (kept[0] == 11).all()
    assert line.memory.made == 2  # one for the view that was kept, one for all the others in turn


def test_what_the_consumer_keeps_stays_as_it_was() -> None:
    line = Line(2)
    for sequence in range(40):
        line.complete(sequence, line.row(sequence))
    assert [index for batch in line.out for index in check(batch)] == list(range(40))
    assert line.memory.made == 20
    line.out.clear()
    gc.collect()
    line.row(40)
    assert line.memory.closed == 18  # all but two spares, one of which is in use again
    assert line.slots is not None
    line.slots.close()
    assert line.memory.closed == 20


def test_arrays_outlive_their_slots() -> None:
    line = Line(2)
    for sequence in range(2):
        line.complete(sequence, line.row(sequence))
    assert line.slots is not None
    line.slots.close()
    assert check(line.out[0]) == [0, 1]


def test_a_place_that_stays_empty_is_given_to_the_next_sample() -> None:
    line = Line(3)
    rows = [line.row(sequence) for sequence in range(3)]
    line.collator.leave_out(1, rows[1])
    assert line.row(3) == rows[1]
    for sequence, row in ((0, rows[0]), (2, rows[2]), (3, rows[1])):
        line.complete(sequence, row)
    assert check(line.out[0]) == [0, 3, 2]
    assert not line.out[0].images.flags.owndata


@pytest.mark.parametrize("ordered", [False, True])
def test_images_of_different_shapes_are_a_list(ordered: bool) -> None:
    line = Line(3, ordered=ordered)
    for sequence, shape in enumerate([(2, 3, 3), (4, 4, 3), (2, 3, 3), (2, 3, 3)]):
        line.complete(sequence, line.row(sequence), shape)
    first = line.out.pop(0)
    assert isinstance(first.images, list)
    assert [image.shape for image in first.images] == [(2, 3, 3), (4, 4, 3), (2, 3, 3)]
    line.collator.finish()
    assert check(first) == [0, 1, 2]  # also after its slot was written again
    assert check(line.out.pop()) == [3]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1, 2], np.array([1, 2])),
        ([np.int32(1), 2], np.array([1, 2])),
        (["a", "b"], ["a", "b"]),
        ([1, None], [1, None]),
        ([True, False], [True, False]),
        ([1.5, 2], [1.5, 2]),
        ([1 << 70, 2], [1 << 70, 2]),
    ],
)
def test_labels_are_an_array_where_all_are_integers(labels: list[Any], expected: Any) -> None:
    line = Line(2)
    for sequence, label in enumerate(labels):
        line.complete(sequence, line.row(sequence), label=label)
    batch = line.out[0]
    assert type(batch.labels) is type(expected)
    assert list(batch.labels) == list(expected)
    if isinstance(expected, np.ndarray):
        assert batch.labels.dtype == np.int64
    assert batch.indices.dtype == np.int64
