"""``asyncload demo``: the whole pipeline in a few seconds, against a server that misbehaves on purpose."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from numpy.random import Generator, default_rng
from rich.console import Console

from asyncload import transforms
from asyncload.cli import ctrl_c
from asyncload.cli.contact_sheet import COLUMNS, Picture, contact_sheet
from asyncload.cli.measure import Epoch, measure
from asyncload.cli.options import Executor, ExecutorName, Workers
from asyncload.cli.summary import summarize
from asyncload.cli.terminal import errors, output, progress
from asyncload.fetch import Http
from asyncload.loader import Loader
from asyncload.testing import ImageServer
from asyncload.types import Batch

__all__ = ["demo"]

_LATE = 0.5  # seconds
_DEAD_KINDS = 3  # the first of those below
_PICTURES = 6 * COLUMNS


def demo(
    images: Annotated[int, typer.Option(min=20, max=5000, help="How many photographs.")] = 300,
    workers: Workers = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes other photographs.")] = 0,
    output_file: Annotated[Path, typer.Option("--output", dir_okay=False, help="Where the contact sheet goes.")] = Path(
        "asyncload-demo.png"
    ),
    executor: Executor = ExecutorName.process,
) -> int:
    """Load from a server that misbehaves on purpose; draw the result."""
    if not output_file.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {output_file.parent}", param_hint="--output")
    console = output()
    with ImageServer(count=images, seed=seed) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and never listens: whoever connects is refused
        links, dead = _with_trouble(server, closed.getsockname()[1], default_rng(seed))
        _announce(console, images, len(dead) // _DEAD_KINDS)
        _paint(server, images)
        picked: dict[int, Picture] = {}
        places = [iter(range(label, _PICTURES, len(server.classes))) for label in range(len(server.classes))]

        def pick(batch: Batch) -> None:
            """The first samples of each class, so that the sheet has all of them in turn."""
            for image, label in zip(batch.images, batch.labels.tolist(), strict=True):
                place = next(places[label], None)
                if place is not None:
                    picked[place] = Picture(image.copy(), server.classes[label])

        loader = Loader(
            links,
            transforms.imagenet_train(224),
            batch_size=16,
            seed=seed,
            workers=workers,
            executor=executor.value,
            max_error_rate=0.5,  # of the fewest photographs, more than a tenth cannot be had
            http=Http(allow_private=True),
        )
        with loader:
            epoch = measure(loader, errors(), "loading", images, pick)
    if epoch.error is not None:
        raise epoch.error
    pictures = [picked[place] for place in sorted(picked)]
    subtitle = f"{len(pictures)} of {epoch.stats.samples} samples, cropped and flipped as for training"
    contact_sheet(pictures, "asyncload demo", subtitle).save(output_file, "PNG")
    _tell(console, epoch, dead)
    console.print(f"\nContact sheet: {output_file}", soft_wrap=True)
    console.print("Next: asyncload bench FOLDER_OR_LIST measures your own images; asyncload doctor checks the setup.")
    return 0


def _with_trouble(server: ImageServer, closed_port: int, rng: Generator) -> tuple[list[tuple[str, int]], set[int]]:
    """All photographs as ``(url, label)``, some of them spoilt; and the indices of those that cannot be had."""
    links = server.pairs()
    kinds: list[Callable[[int], str]] = [
        lambda index: server.fault_url(index, "status", 404),
        lambda index: links[index][0].replace(server.url, f"http://127.0.0.1:{closed_port}"),
        lambda index: server.fault_url(index, "html"),
        lambda index: server.fault_url(index, "delay", _LATE),
        lambda index: server.fault_url(index, "status", 503, times=1),
        lambda index: server.fault_url(index, "truncate", times=1),
    ]
    of_each = max(1, len(links) // 100)
    chosen = rng.choice(len(links), of_each * len(kinds), replace=False).tolist()
    for number, index in enumerate(chosen):
        links[index] = (kinds[number // of_each](index), links[index][1])
    return links, set(chosen[: of_each * _DEAD_KINDS])


def _announce(console: Console, images: int, of_each: int) -> None:
    console.print(f"asyncload demo: {images:,} photographs from a server inside this process.", style="bold")
    console.print(
        f"On purpose, {3 * of_each} of its links are dead ({of_each} of each: gone with a 404, a closed port, a web "
        f"page) and {3 * of_each} misbehave at first ({of_each} of each: {_LATE:g} s late, a 503, broken off half "
        "way).\n"
    )


def _paint(server: ImageServer, images: int) -> None:
    done = 0
    with progress(errors(), "painting", images, lambda: (done, "")):
        for number in range(images):
            ctrl_c.check()
            server.photograph(number)
            done += 1


def _tell(console: Console, epoch: Epoch, dead: set[int]) -> None:
    failed = {failure.index for failure in epoch.failures}
    if failed == dead:
        title = f"Failed: the {len(dead)} links that are dead on purpose, and no others"
    else:
        title = f"Failed: {len(failed & dead)} links that are dead on purpose, and {len(failed - dead)} that are not"
    summarize(console, epoch, title)
    console.print(
        f"\nHalf of the samples were here after {epoch.seconds_until(0.5):.2f} s, nine tenths after "
        f"{epoch.seconds_until(0.9):.2f} s, the last after {epoch.seconds_until(1):.2f} s: those that came late or "
        "had to be tried again kept nobody waiting but themselves."
    )
