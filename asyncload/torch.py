"""For training with torch: a dataset whose batches are tensors over the memory that the workers wrote."""

from __future__ import annotations

import os
import pickle
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any, Unpack

import cloudpickle
import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from asyncload.errors import Failure
from asyncload.loader import Loader, LoaderIterator, LoaderOptions
from asyncload.pool.executors import usable_cores
from asyncload.sources import AnySource
from asyncload.stats import Stats
from asyncload.types import Batch, Sample, Shard, Transform

__all__ = ["ImageDataset"]


class ImageDataset(IterableDataset[tuple[Any, Any]]):
    """A :class:`asyncload.Loader` as a torch dataset: iterating it is one epoch of ``(images, labels)``.

    ``images`` is a tensor ``(B, 3, H, W)`` in channels-last memory, ``uint8`` unless the transform changed it, without
    a copy (a list of ``(3, H, W)`` where shapes differ); ``labels`` is an ``int64`` tensor ``(B,)``, or a list where
    labels are not all integers. Without ``batch_size``: one ``(3, H, W)`` tensor and one label at a time. A transform's
    result that is no image (not three channels last) becomes a tensor of its own shape.

    Use it alone: it loads in the background by itself. In a ``DataLoader`` pass ``batch_size=None``; with
    ``num_workers`` each of them takes its part of the source and decodes in threads.

    The options are those of :class:`asyncload.Loader`. ``shard`` is by default this process's rank: of
    ``torch.distributed`` where that is initialised, else of ``RANK`` and ``WORLD_SIZE`` in the environment, as torchrun
    sets them, else everything. Epochs count up by themselves in the process that iterates; :meth:`set_epoch` says
    which is next, and is needed where a ``DataLoader`` starts new workers for each epoch. An epoch that has begun ends
    the one before; whoever still iterates that gets a ``RuntimeError``.
    """

    def __init__(
        self,
        source: AnySource,
        transform: Transform | None = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        **options: Unpack[LoaderOptions],
    ) -> None:
        if options.get("shard") is None:
            options["shard"] = _this_rank()
        self._make_loader = partial(Loader, source, transform, batch_size=batch_size, drop_last=drop_last)
        self._options = options
        self._epoch = 0
        self._home: object = None
        self._loader: Loader | None = None
        self._iterator: weakref.ref[LoaderIterator] | None = None
        self._loader_here()  # so that the arguments are checked now

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        loader = self._loader_here()
        if self._iterator is not None and (other := self._iterator()) is not None:
            other.close()  # a variable, or a DataLoader worker, lets go of an iterator only when it has the next
        loader.set_epoch(self._epoch)
        iterator = iter(loader)
        self._epoch += 1
        self._iterator = weakref.ref(iterator)
        return self._deliver(iterator)

    def _deliver(self, iterator: LoaderIterator) -> Iterator[tuple[Any, Any]]:
        yield from map(_tensors, iterator)
        if self._iterator is None or self._iterator() is not iterator:
            raise RuntimeError("this epoch was ended by the next one; for two at once make another ImageDataset")

    def __len__(self) -> int:
        """Batches (samples, without ``batch_size``) in an epoch of this rank if nothing fails.

        Raises ``TypeError`` where the source does not know its length. Several ``DataLoader`` workers end with a
        smaller batch each, so there may be a few more.
        """
        return len(self._loader_here())

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch."""
        self._loader_here().set_epoch(epoch)
        self._epoch = epoch

    def stats(self) -> Stats:
        """The current epoch in figures, or the last one. A ``DataLoader`` worker's stay in that worker."""
        return self._loader_here().stats()

    @property
    def failures(self) -> list[Failure]:
        """What the current epoch, or the last one, did not deliver, and why."""
        return self._loader_here().failures

    def close(self) -> None:
        """End the pipeline in this process. May be called twice."""
        self._loader_here().close()

    def _loader_here(self) -> Loader:
        """The loader of this process: a DataLoader worker, forked or spawned, has one of its own."""
        worker = get_worker_info()
        home = (os.getpid(), worker and worker.id)
        if self._loader is None or self._home != home:
            options = self._options.copy()
            if worker is not None:
                shard = options.get("shard") or Shard(0, 1)
                parts = worker.num_workers
                options["shard"] = Shard(shard.rank * parts + worker.id, shard.world_size * parts)
                if options.get("executor", "process") == "process":
                    options["executor"] = "thread"  # a DataLoader worker is a daemon, which may have no children
                if options.get("workers") is None:
                    options["workers"] = max(1, usable_cores() // parts)
            self._home, self._loader, self._iterator = home, self._make_loader(**options), None
        return self._loader

    def __getstate__(self) -> bytes:
        # By cloudpickle, as decode workers get their transform: lambdas may go to a spawned DataLoader worker, too.
        pickled: bytes = cloudpickle.dumps({**vars(self), "_loader": None, "_iterator": None})
        return pickled

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(pickle.loads(state))


def _this_rank() -> Shard | None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Shard(torch.distributed.get_rank(), torch.distributed.get_world_size())
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return Shard(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    return None


def _tensors(output: Batch | Sample) -> tuple[Any, Any]:
    if isinstance(output, Sample):
        return _tensor(output.image, 3), output.label
    labels = torch.from_numpy(output.labels) if isinstance(output.labels, np.ndarray) else output.labels
    if isinstance(output.images, list):
        return [_tensor(image, 3) for image in output.images], labels
    return _tensor(output.images, 4), labels


def _tensor(value: Any, image_ndim: int) -> Any:
    """``value`` as a tensor, if it is an array. From ``image_ndim`` dimensions on it may be images, channels last."""
    if not isinstance(value, np.ndarray):
        return value
    if not value.flags.writeable or any(stride < 0 for stride in value.strides):
        value = value.copy()  # torch has neither
    tensor = torch.from_numpy(value)
    return tensor.movedim(-1, -3) if value.ndim >= image_ndim and value.shape[-1] == 3 else tensor
