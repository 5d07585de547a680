"""``asyncload bench``: how fast a source can be read, decoded and transformed here."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from asyncload import transforms
from asyncload.cli.measure import Epoch, measure
from asyncload.cli.options import Executor, ExecutorName, Json, Workers
from asyncload.cli.summary import summarize
from asyncload.cli.terminal import errors, output, printable
from asyncload.fetch import Http
from asyncload.loader import Loader
from asyncload.pool.executors import usable_cores
from asyncload.sources import from_folder, from_urls
from asyncload.types import Item, Transform

__all__ = ["bench"]

_FAILURES_IN_JSON = 100
_SUPPORTED = "a folder of images, a text file with one URL or path per line, or - for such lines on the standard input"


class TransformName(StrEnum):
    train = "train"
    eval = "eval"
    none = "none"


def bench(
    source: Annotated[str, typer.Argument(help=f"{_SUPPORTED[0].upper()}{_SUPPORTED[1:]}.")],
    batch_size: Annotated[int, typer.Option(min=1, help="Samples in a batch.")] = 256,
    size: Annotated[int, typer.Option(min=1, help="Width and height of the transformed images, in pixels.")] = 224,
    transform: Annotated[
        TransformName, typer.Option(help="The usual transform for training or evaluation on ImageNet, or none.")
    ] = TransformName.train,
    epochs: Annotated[int, typer.Option(min=1, help="How many times; the workers start in the first.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many images.")] = None,
    workers: Workers = None,
    executor: Executor = ExecutorName.process,
    connections: Annotated[int, typer.Option(min=1, help="Connections in all.")] = 256,
    per_host: Annotated[int, typer.Option(min=1, help="Connections to one host.")] = 64,
    max_error_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Stop where more than this share of the images fails.")
    ] = 0.5,
    allow_private: Annotated[bool, typer.Option("--allow-private", help="Allow servers of a private network.")] = False,
    ordered: Annotated[bool, typer.Option("--ordered", help="Deliver in the order of the source.")] = False,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Load in a random order.")] = False,
    no_decode: Annotated[bool, typer.Option("--no-decode", help="Only fetch: neither decode nor transform.")] = False,
    as_json: Json = False,
) -> int:
    """Measure how fast a folder or a list of images can be loaded."""
    items = _read_source(source, limit)
    try:
        loader = Loader(
            items,
            None if no_decode else _transform(transform, size),
            batch_size=batch_size,
            ordered=ordered,
            shuffle=shuffle,
            max_error_rate=max_error_rate,
            workers=workers,
            executor=executor.value,
            decode=not no_decode,
            http=Http(connections=connections, per_host=per_host, allow_private=allow_private),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    setup = {
        "source": source,
        "images": len(items),
        "batch_size": batch_size,
        "transform": "none" if no_decode else transform.value,
        "size": size,
        "workers": usable_cores() if workers is None else workers,
        "executor": executor.value,
        "connections": connections,
        "per_host": per_host,
    }
    if not as_json:
        values = ", ".join(f"{name} {value}" for name, value in setup.items())
        output().print(f"asyncload bench: {printable(values)}\n", soft_wrap=True)
    finished: list[Epoch] = []
    with loader:
        for number in range(epochs):
            title = f"epoch {number}" if epochs > 1 else "loading"
            epoch = measure(loader, errors(), title, len(items))
            finished.append(epoch)
            if not as_json:
                if epochs > 1:
                    output().print(f"\nEpoch {number}" if number else "Epoch 0", style="dim")
                summarize(output(), epoch)
            if epoch.error is not None:
                break
    if as_json:
        print(json.dumps({**setup, "epochs": [_plain(epoch) for epoch in finished]}))
    return _status(finished, allow_private=allow_private)


def _status(epochs: list[Epoch], *, allow_private: bool) -> int:
    """The exit status, and why it is not 0."""
    last, console = epochs[-1], errors()
    if "blocked_address" in last.stats.reasons and not allow_private:
        console.print("\nPass --allow-private if the servers are your own: addresses of private networks are blocked.")
    if isinstance(last.error, KeyboardInterrupt):
        console.print("\nStopped; these are the figures so far.")
        return 130
    if last.error is not None:
        console.print(f"\nasyncload bench: {printable(str(last.error))}", soft_wrap=True)
        return 1
    if not any(epoch.stats.samples for epoch in epochs):
        console.print("\nasyncload bench: not one image could be loaded")
        return 1
    return 0


def _transform(name: TransformName, size: int) -> Transform | None:
    if name is TransformName.none:
        return None
    return transforms.imagenet_train(size) if name is TransformName.train else transforms.imagenet_eval(size)


def _read_source(source: str, limit: int | None) -> Sequence[Item]:
    """What ``source`` names, the first ``limit`` of it. Raises ``typer.BadParameter`` where that is nothing."""
    if "://" in source:
        raise _bad_source(f"{source} is a URL; expected {_SUPPORTED}")
    path = Path(source)
    try:
        if source == "-":
            items = from_urls(islice(_lines(sys.stdin.buffer), limit))
        elif path.is_dir():
            folder = from_folder(path)
            return folder if limit is None else folder[:limit]
        else:
            with path.open("rb") as file:
                items = from_urls(islice(_lines(file), limit))
    except OSError as error:
        raise _bad_source(f"{source}: {error.strerror}; expected {_SUPPORTED}") from None
    except UnicodeDecodeError:
        raise _bad_source(f"{source} is not text in UTF-8; expected {_SUPPORTED}") from None
    except ValueError as error:  # a folder without images
        raise _bad_source(str(error)) from None
    if not items:
        raise _bad_source(f"{source} names no image; expected {_SUPPORTED}")
    return items


def _lines(file: Iterable[bytes]) -> Iterator[str]:
    for line in codecs.iterdecode(file, "utf-8-sig"):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield stripped


def _bad_source(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="SOURCE")


def _plain(epoch: Epoch) -> dict[str, Any]:
    stats, error = epoch.stats, epoch.error
    return {
        **asdict(stats),
        "images_per_second": stats.images_per_second,
        "megabytes_per_second": stats.megabytes_per_second,
        "first_batch_seconds": epoch.first_batch_seconds,
        "failures": [asdict(failure) for failure in epoch.failures[:_FAILURES_IN_JSON]],
        "error": None if error is None else "interrupted" if isinstance(error, KeyboardInterrupt) else str(error),
    }
