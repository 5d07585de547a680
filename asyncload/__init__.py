"""Image URLs in, training batches out, at the speed of the decoder.

The faces, each standing on the one below it::

    asyncload.torch     ImageDataset and to_device, for training with torch
    asyncload.loader    Loader and stream: a loop in a thread, a plain generator in front of it
    asyncload.session   Session: the same pipeline inside the caller's own event loop

The rooms behind them::

    pipeline    one pass over a source: what is in flight, what is delivered, what failed
    collate     samples into batches, in memory that the workers write directly
    fetch       URL to bytes: retries, limits, redirects, local files
    pool        decode workers: processes, threads or none
    decode      bytes to pixels
    transforms  (image, rng) to image
    sources     where items come from
    sampling    their order: shuffle, shard
    stats       counters, rates, and the part that was the bottleneck
    testing     ImageServer, a local server of generated photographs, with faults

Names are imported when they are first used: a decode worker, which imports this package too, pays for none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncload import sources, transforms
    from asyncload.decode import Decode
    from asyncload.errors import (
        AsyncloadError,
        BlockedError,
        BrokenPoolError,
        ClosedError,
        ConnectError,
        DecodeError,
        Failure,
        FetchError,
        FetchTimeout,
        HTTPStatusError,
        PayloadError,
        PipelineError,
        SampleError,
        TooManyErrors,
        TransformError,
        WorkerError,
    )
    from asyncload.fetch import Http
    from asyncload.loader import Loader, stream
    from asyncload.session import Session
    from asyncload.stats import Stats
    from asyncload.types import Batch, Item, Region, Sample, Shard

__version__ = "0.1.0"

_HOMES = {
    "decode": ["Decode"],
    "errors": [
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
    ],
    "fetch": ["Http"],
    "loader": ["Loader", "stream"],
    "session": ["Session"],
    "stats": ["Stats"],
    "types": ["Batch", "Item", "Region", "Sample", "Shard"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {"sources", "transforms"}

__all__ = [
    "AsyncloadError",
    "Batch",
    "BlockedError",
    "BrokenPoolError",
    "ClosedError",
    "ConnectError",
    "Decode",
    "DecodeError",
    "Failure",
    "FetchError",
    "FetchTimeout",
    "HTTPStatusError",
    "Http",
    "Item",
    "Loader",
    "PayloadError",
    "PipelineError",
    "Region",
    "Sample",
    "SampleError",
    "Session",
    "Shard",
    "Stats",
    "TooManyErrors",
    "TransformError",
    "WorkerError",
    "sources",
    "stream",
    "transforms",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"asyncload.{name}")
    if name in _HOME_OF:
        value = getattr(import_module(f"asyncload.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'asyncload' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
