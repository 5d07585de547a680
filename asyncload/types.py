"""The records that travel through every room, and the protocols that join the rooms.

Nothing here imports anything of asyncload, so a decode worker gets these for the price of numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch", "Image", "Item", "Region", "RegionTransform", "Sample", "Shard", "Source", "Transform"]

Image: TypeAlias = NDArray[np.uint8]
"""Pixels: ``uint8``, shape ``(H, W, 3)``, RGB, upright."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a source: where an image is, and what it is called.

    ``index`` is its position in the source and identifies it everywhere: in batches, failures and states.
    ``url`` is an http(s) or ``file:`` URL, or a bare path of a local file. ``label`` is passed through as it is.
    """

    index: int
    url: str
    label: Any = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One image, delivered.

    ``image`` is ``uint8`` ``(H, W, 3)`` RGB unless the transform changed it, or the encoded ``bytes`` where
    ``decode=False`` was asked for. It is the receiver's own: nothing writes to it again.
    """

    index: int
    url: str
    label: Any
    image: Any


@dataclass(frozen=True, slots=True)
class Batch:
    """Several samples, delivered together.

    ``images`` is one array ``(B, ...)`` where all shapes and dtypes agree, else a list of B images. The array is a
    view of shared memory that is written again only when nothing refers to it any more, so it may be kept.
    ``labels`` is an ``int64`` array ``(B,)`` where all labels are integers, else a list. ``indices`` is ``int64``
    ``(B,)``: each sample's position in the source. ``urls`` is a list of B strings.
    """

    images: Any
    labels: Any
    indices: NDArray[np.int64]
    urls: list[str]

    def __len__(self) -> int:
        return len(self.urls)


@dataclass(frozen=True, slots=True)
class Shard:
    """Which part of a source belongs to this process: every ``world_size``-th sample, beginning at ``rank``.

    Raises ``ValueError`` unless ``0 <= rank < world_size``.
    """

    rank: int
    world_size: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"Shard: expected 0 <= rank < world_size, got rank={self.rank}, world_size={self.world_size}"
            )


class Region(NamedTuple):
    """The part of an image that a transform is about to use, in pixels of the upright image.

    ``least_width`` and ``least_height`` say how small the decoder may deliver it: a decoder that can scale while it
    decodes may return the region at any size from that up to ``(width, height)``.
    """

    left: int
    top: int
    width: int
    height: int
    least_width: int
    least_height: int


class Transform(Protocol):
    """Any callable ``(image, rng) -> image``.

    ``image`` is ``uint8`` ``(H, W, 3)``; ``rng`` is a ``numpy.random.Generator`` seeded by (seed, epoch, index) alone.
    """

    def __call__(self, image: Image, rng: np.random.Generator, /) -> Any: ...


@runtime_checkable
class RegionTransform(Protocol):
    """A transform that begins by taking a region, and says which before anything is decoded.

    ``transform(image, rng)`` must equal ``transform.apply(crop of image, transform.region(...), rng)`` with the same
    generator, so that it makes no difference who crops.
    """

    def region(self, width: int, height: int, rng: np.random.Generator, /) -> Region: ...

    def apply(self, pixels: Image, region: Region, rng: np.random.Generator, /) -> Any: ...

    def __call__(self, image: Image, rng: np.random.Generator, /) -> Any: ...


@runtime_checkable
class Source(Protocol):
    """Items of known number: what ``Sequence[Item]`` offers, without the rest of a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Item: ...

    def __iter__(self) -> Iterator[Item]: ...
