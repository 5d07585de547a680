"""In which order the items of a source are taken, and which of them are this process's.

Nothing here holds a list of the source: a position is computed when it is needed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import numpy as np
from numpy.typing import NDArray

from asyncload.types import Item, Shard, Source

__all__ = ["Feed", "Order", "Permutation"]

CHUNK = 1024
"""Positions that are permuted at a time: enough to make numpy's overhead vanish, too few to be felt."""

_ROUNDS = 8
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Permutation:
    """A bijection of ``range(length)``, chosen by (seed, epoch), computed position by position.

    A balanced Feistel network on the smallest even number of bits that holds ``length``; results outside the range are
    put through it again until they are inside ("cycle walking": Black and Rogaway, "Ciphers with arbitrary finite
    domains", CT-RSA 2002). Its round function is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    The same numbers on every machine and version.
    """

    def __init__(self, length: int, seed: int, epoch: int) -> None:
        self._length = length
        self._half = np.uint64(max(1, ((max(length, 2) - 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        # Philox's raw output for this key is fixed by its definition, whatever numpy's distributions do.
        keys = np.random.Philox(key=np.array([seed, epoch], np.uint64)).random_raw(_ROUNDS)
        self._keys: NDArray[np.uint64] = keys

    def __call__(self, positions: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Where each of ``positions`` (all below ``length``) goes."""
        result = self._encipher(positions)
        while (outside := result >= self._length).any():
            result[outside] = self._encipher(result[outside])
        return result

    def _encipher(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        for key in self._keys:
            mixed = (right ^ key) * _MIX_1
            mixed ^= mixed >> np.uint64(29)
            mixed *= _MIX_2
            left, right = right, left ^ ((mixed >> np.uint64(32)) & self._mask)
        return (left << self._half) | right


class Order:
    """The indices that one process takes from a source of ``length`` items in one epoch, in order.

    The whole source is shuffled first and then dealt out, one item to each rank in turn, so that shards are disjoint,
    complete, and differ in size by at most one.
    """

    def __init__(self, length: int, *, shuffle: bool, seed: int, epoch: int, shard: Shard | None) -> None:
        self._length = length
        self._permutation = Permutation(length, seed, epoch) if shuffle else None
        self._rank = shard.rank if shard else 0
        self._step = shard.world_size if shard else 1

    def __len__(self) -> int:
        return max(0, -(-(self._length - self._rank) // self._step))

    def __getitem__(self, position: int) -> int:
        """The index of the source's item that is taken at ``position`` of this process's part."""
        return next(self._indices(position, position + 1))

    def __iter__(self) -> Iterator[int]:
        for start in range(0, len(self), CHUNK):
            yield from self._indices(start, min(start + CHUNK, len(self)))

    def _indices(self, start: int, stop: int) -> Iterator[int]:
        positions = np.arange(start, stop, dtype=np.uint64) * np.uint64(self._step) + np.uint64(self._rank)
        indices = positions if self._permutation is None else self._permutation(positions)
        return iter(indices.tolist())


class Feed:
    """The items that are this process's, one by one, numbered in the order in which they are taken.

    A source of known length is shuffled and sharded by :class:`Order`; of a stream, every ``world_size``-th item is
    taken as it comes.
    """

    def __init__(
        self,
        source: Source | Iterator[Item] | AsyncIterator[Item],
        *,
        shuffle: bool,
        seed: int,
        epoch: int,
        shard: Shard | None,
    ) -> None:
        self.order: Order | None = None
        self._taken = 0
        self._stream: AsyncIterator[Item] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._shard = shard or Shard(0, 1)
        self._items: Iterator[Item]
        if isinstance(source, AsyncIterator):
            self._stream = source
        elif isinstance(source, Iterator):
            self._items = itertools.islice(source, self._shard.rank, None, self._shard.world_size)
        else:
            self.order = Order(len(source), shuffle=shuffle, seed=seed, epoch=epoch, shard=shard)
            self._items = map(source.__getitem__, self.order)

    async def next(self) -> tuple[int, Item] | None:
        """The next item and its number, from 0; ``None`` when there are no more."""
        if self._stream is not None:
            async with self._one_at_a_time:
                return self._number(await self._next_of_stream(self._stream))
        return self._number(next(self._items, None))

    def _number(self, item: Item | None) -> tuple[int, Item] | None:
        if item is None:
            return None
        self._taken += 1
        return self._taken - 1, item

    async def _next_of_stream(self, stream: AsyncIterator[Item]) -> Item | None:
        async for item in stream:
            if item.index % self._shard.world_size == self._shard.rank:
                return item
        return None
