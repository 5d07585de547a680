from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncload.sampling import CHUNK, Feed, Order, Permutation
from asyncload.sources import as_source
from asyncload.types import Shard


def order(length: int, *, shuffle: bool = True, seed: int = 0, epoch: int = 0, shard: Shard | None = None) -> list[int]:
    return list(Order(length, shuffle=shuffle, seed=seed, epoch=epoch, shard=shard))


@given(st.integers(0, 3000), st.integers(0, 2**63 - 1), st.integers(0, 1000))
def test_a_shuffle_is_a_permutation(length: int, seed: int, epoch: int) -> None:
    assert sorted(order(length, seed=seed, epoch=epoch)) == list(range(length))


def test_without_shuffle_the_order_is_the_source_s() -> None:
    assert order(2 * CHUNK + 5, shuffle=False) == list(range(2 * CHUNK + 5))


def test_seed_and_epoch_each_change_the_order() -> None:
    orders = {tuple(order(100, seed=seed, epoch=epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_the_order_is_the_same_on_every_machine_and_version() -> None:
    assert order(10, seed=7, epoch=3) == [6, 2, 3, 4, 8, 5, 9, 0, 1, 7]


@pytest.mark.parametrize("length", [7, 64, 100])
def test_every_position_is_equally_likely_for_every_item(length: int) -> None:
    """A chi-squared statistic of where the first item lands, over many epochs."""
    epochs = 200 * length
    landed = Counter(int(Permutation(length, 1, epoch)(np.zeros(1, np.uint64))[0]) for epoch in range(epochs))
    expected = epochs / length
    statistic = sum((landed[i] - expected) ** 2 / expected for i in range(length))
    assert statistic < length - 1 + 5 * (2 * (length - 1)) ** 0.5  # five standard deviations above the mean


def test_neighbours_are_parted() -> None:
    shuffled = order(10_000)
    neighbours = sum(abs(a - b) == 1 for a, b in itertools.pairwise(shuffled))
    assert neighbours < 15  # 2 are expected of 10,000 items in random order


@given(st.integers(0, 500), st.integers(1, 20), st.booleans())
def test_shards_are_disjoint_complete_and_even(length: int, world_size: int, shuffle: bool) -> None:
    parts = [order(length, shuffle=shuffle, shard=Shard(rank, world_size)) for rank in range(world_size)]
    assert sorted(index for part in parts for index in part) == list(range(length))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [
        len(Order(length, shuffle=shuffle, seed=0, epoch=0, shard=Shard(rank, world_size)))
        for rank in range(world_size)
    ] == list(map(len, parts))


def test_a_position_is_what_iteration_gives_there() -> None:
    whole = Order(100, shuffle=True, seed=1, epoch=2, shard=Shard(1, 3))
    assert [whole[position] for position in range(len(whole))] == list(whole)


@pytest.mark.parametrize(("rank", "world_size"), [(-1, 2), (2, 2), (0, 0)])
def test_a_shard_that_does_not_exist_is_refused(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match="rank < world_size"):
        Shard(rank, world_size)


async def feed_of(source: object, shard: Shard | None = None) -> list[tuple[int, int, str]]:
    feed = Feed(as_source(source), shuffle=False, seed=0, epoch=0, shard=shard)  # type: ignore[arg-type]
    taken = []
    while (entry := await feed.next()) is not None:
        taken.append((entry[0], entry[1].index, entry[1].url))
    return taken


async def test_lists_iterators_and_async_iterators_feed_alike() -> None:
    urls = [f"u{i}" for i in range(5)]

    async def slowly():  # type: ignore[no-untyped-def]
        for url in urls:
            yield url

    for shard in (None, Shard(1, 2)):
        assert await feed_of(urls, shard) == await feed_of(iter(urls), shard) == await feed_of(slowly(), shard)
    assert await feed_of(urls, Shard(1, 2)) == [(0, 1, "u1"), (1, 3, "u3")]
