"""Lists of URLs, kept compactly, and whatever else a caller may hand over as a source."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast, overload

import numpy as np

from asyncload.types import Item, Source

__all__ = ["AnySource", "UrlSource", "as_source", "from_urls", "to_item"]

AnySource: TypeAlias = Source | Iterable[Any] | AsyncIterable[Any]
"""URLs or paths, (url, label) pairs, or Items; in a sequence, an iterable or an async iterable."""


class UrlSource(Sequence[Item]):
    """URLs in one buffer, and labels beside it. Made by :func:`from_urls`.

    It takes the length of its URLs and 8 bytes each, so 1.28 million ImageNet URLs take about 100 MB instead of the
    200 MB of a list of strings, and it is pickled as two arrays.
    """

    def __init__(self, buffer: bytes, ends: np.ndarray[Any, np.dtype[np.int64]], labels: Sequence[Any] | None) -> None:
        self._buffer = buffer
        self._ends = ends
        self._labels = labels

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"UrlSource: index {index} of {len(self)} items")
        start = int(self._ends[index - 1]) if index else 0
        label = None if self._labels is None else self._labels[index]
        if isinstance(label, np.integer):
            label = int(label)
        return Item(index, self._buffer[start : int(self._ends[index])].decode(), label)

    def __repr__(self) -> str:
        return f"UrlSource({len(self)} items)"


def from_urls(urls: Iterable[str | os.PathLike[str]], labels: Iterable[Any] | None = None) -> UrlSource:
    """A source of ``urls``: http(s) or ``file:`` URLs, or paths of local files.

    ``labels``, one for each URL, are kept as an ``int64`` array where all are integers, else as a list.

    Raises ``TypeError`` where a URL is neither a string nor a path, ``ValueError`` where one is empty or the number of
    labels differs.
    """
    if isinstance(urls, (str, bytes)):
        raise TypeError(f"from_urls: expected an iterable of URLs, got one {type(urls).__name__}; pass [url]")
    encoded = [_url(url, index).encode() for index, url in enumerate(urls)]
    ends = np.cumsum([len(url) for url in encoded], dtype=np.int64)
    kept: Sequence[Any] | None = None
    if labels is not None:
        kept = list(labels)
        if len(kept) != len(encoded):
            raise ValueError(f"from_urls: expected a label for each of {len(encoded)} URLs, got {len(kept)}")
        if kept and all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in kept):
            kept = cast("Sequence[Any]", np.array(kept, dtype=np.int64))
    return UrlSource(b"".join(encoded), ends, kept)


class _SequenceSource:
    """A caller's own sequence, looked up when an item's turn comes."""

    def __init__(self, sequence: Sequence[Any]) -> None:
        self._sequence = sequence

    def __len__(self) -> int:
        return len(self._sequence)

    def __getitem__(self, index: int) -> Item:
        return to_item(index, self._sequence[index])

    def __iter__(self) -> Iterator[Item]:
        return map(to_item, range(len(self)), self._sequence)


def as_source(source: AnySource) -> Source | Iterator[Item] | AsyncIterator[Item]:
    """``source`` as a :class:`~asyncload.types.Source` where its length is known, else as an iterator of items.

    Raises ``TypeError`` where it is no source at all.
    """
    if isinstance(source, (str, bytes, os.PathLike)):
        raise TypeError(f"source: expected an iterable of URLs, got one {type(source).__name__}; pass [url]")
    if isinstance(source, (UrlSource, _SequenceSource)):
        return source
    if hasattr(source, "__getitem__") and hasattr(source, "__len__") and not isinstance(source, dict):
        sequence = _SequenceSource(cast("Sequence[Any]", source))
        if len(sequence):
            sequence[0]  # a list of something else is refused here, and not in the middle of an epoch
        return sequence
    if isinstance(source, AsyncIterable):
        return _number_async(source)
    if isinstance(source, Iterable) and not isinstance(source, (dict, set, frozenset)):
        return map(to_item, itertools.count(), source)
    raise TypeError(
        f"source: expected a sequence or an iterable of URLs or (url, label) pairs, got {type(source).__name__}"
    )


def to_item(index: int, entry: Any) -> Item:
    """The item that ``entry`` stands for: a URL, a path, a (url, label) pair, or an item whose index is replaced."""
    if isinstance(entry, Item):
        return entry if entry.index == index else Item(index, entry.url, entry.label)
    if isinstance(entry, (tuple, list)) and len(entry) == 2:
        return Item(index, _url(entry[0], index), entry[1])
    return Item(index, _url(entry, index))


def _url(value: Any, index: int) -> str:
    url = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(url, str):
        raise TypeError(
            f"source: expected a URL, a path or a (url, label) pair at index {index}, got {type(value).__name__}"
        )
    if not url.strip():
        raise ValueError(f"source: expected a URL at index {index}, got an empty string")
    return url


async def _number_async(entries: AsyncIterable[Any]) -> AsyncIterator[Item]:
    index = 0
    async for entry in entries:
        yield to_item(index, entry)
        index += 1
