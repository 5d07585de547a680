"""asyncload, as its README says."""

from __future__ import annotations

from collections.abc import Iterator

from asyncload import Http, Loader, transforms

LABEL = "asyncload"
PACKAGES = ["asyncload", "aiohttp", "uvloop"]

WORKERS = 2
BATCH_SIZE = 250


def epochs(pairs: list[tuple[str, int]], count: int) -> Iterator[Iterator[int]]:
    """For each epoch, the sizes of its batches as they arrive."""
    http = Http(allow_private=True, per_host=256)  # one server is all there is here
    transform = transforms.imagenet_train(224)
    with Loader(pairs, transform, batch_size=BATCH_SIZE, shuffle=True, workers=WORKERS, http=http) as loader:
        for _ in range(count):
            yield (len(batch) for batch in loader)
