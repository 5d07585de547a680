"""The synchronous face: a loop in a thread, and a plain iterator in front of it."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, TypedDict, Unpack

from tqdm import tqdm

from asyncload.bridge import Inbox, LoopThread
from asyncload.decode import Decode
from asyncload.errors import ClosedError, Failure
from asyncload.fetch import Http
from asyncload.options import ErrorPolicy, Options, check_counter
from asyncload.pipeline import Run, samples_in
from asyncload.pool.executors import Executor
from asyncload.sampling import Order
from asyncload.session import DEFAULT_HTTP, Session
from asyncload.sources import AnySource, as_source
from asyncload.stats import Counters, Stats
from asyncload.types import Sample, Shard, Source, Transform

__all__ = ["Loader", "LoaderOptions", "stream"]


class Loader:
    """Image URLs in; samples, or training batches, out. An iterable: each ``iter()`` is one epoch.

    A pipeline runs in a thread and in worker processes while the consumer computes. It starts with the first epoch and
    lives across epochs, until :meth:`close`, the end of ``with``, or the end of the loader itself.

    ``source``
        URLs or paths of local files, ``(url, label)`` pairs, a source from :mod:`asyncload.sources` or
        :mod:`asyncload.datasets`, or any iterable or async iterable of these. An iterator is pulled in the pipeline's
        thread, no faster than needed.
    ``transform``
        A callable ``(image, rng) -> image``: ``image`` is ``uint8`` ``(H, W, 3)`` RGB, ``rng`` a
        ``numpy.random.Generator`` seeded by (seed, epoch, index) alone. Lambdas and functions of a notebook work.
    ``batch_size``
        Samples in a :class:`~asyncload.Batch`. ``None`` (default) delivers each :class:`~asyncload.Sample` by itself.
    ``drop_last``
        Leave out the last batch of an epoch if it is smaller than the others. Default ``False``.
    ``ordered``
        Deliver in the order of the source (or of its shuffle). Default ``False``: as samples complete, so that a slow
        server delays nobody but itself.
    ``shuffle``, ``seed``
        Take the source in an order that is a function of (seed, epoch). Default ``False`` and 0.
    ``shard``
        The part of the source that is this process's: ``Shard(rank, world_size)``. Default: all of it.
    ``on_error``
        What becomes of a sample that fails: ``"skip"`` (default; recorded in :attr:`failures`), ``"raise"`` (its
        :class:`~asyncload.SampleError`), ``"replace"`` (recorded, and another sample of the same shard, chosen by
        seed, takes its place), or a callable ``(Failure) -> None``, called in the consumer's thread, that returns to
        skip and raises to stop.
    ``max_error_rate``
        The share of failed samples, looked at after the first 100 outcomes and wherever not one of a source could be
        loaded, above which ``TooManyErrors`` is raised by ``next()``. Default 0.1; 1 for never.
    ``workers``
        Decode workers. Default: one for each usable core. 0 decodes in the pipeline's thread, for debugging.
    ``executor``
        ``"process"`` (default), or ``"thread"`` for the same code in threads of this process.
    ``prefetch``
        How many batches (samples, without ``batch_size``) are kept ready. Default 2 batches, or 8 samples for each
        worker: enough to bridge a slow step, and more would only be memory.
    ``decode``
        ``True`` (default), a :class:`~asyncload.Decode` with other limits, or ``False``: ``Sample.image`` is then the
        encoded bytes.
    ``http``
        The settings of the network: see :class:`~asyncload.Http`.
    ``progress``
        Show a progress bar, in samples. Default ``False``.

    Raises ``TypeError`` or ``ValueError`` for an argument that cannot be meant.
    """

    def __init__(
        self,
        source: AnySource,
        transform: Transform | None = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        ordered: bool = False,
        shuffle: bool = False,
        seed: int = 0,
        shard: Shard | None = None,
        on_error: ErrorPolicy = "skip",
        max_error_rate: float = 0.1,
        workers: int | None = None,
        executor: Executor = "process",
        prefetch: int | None = None,
        decode: bool | Decode = True,
        http: Http = DEFAULT_HTTP,
        progress: bool = False,
    ) -> None:
        self._options = Options(
            batch_size=batch_size,
            drop_last=drop_last,
            ordered=ordered,
            shuffle=shuffle,
            seed=seed,
            shard=shard,
            on_error=on_error,
            max_error_rate=max_error_rate,
            prefetch=prefetch,
        )
        self._source = source
        items = as_source(source)
        self._known = items if isinstance(items, Source) else None
        self._options.check_source(length_known=self._known is not None)
        self._session = Session(transform, workers=workers, executor=executor, http=http, decode=decode, seed=seed)
        self._progress = progress
        self._epoch = 0
        self._thread: LoopThread | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._iterator: weakref.ref[LoaderIterator] | None = None
        self._run: Run | None = None
        self._closed = False

    def __len__(self) -> int:
        """Batches (samples, without ``batch_size``) in an epoch if nothing fails.

        Raises ``TypeError`` where the source does not know its length.
        """
        if self._known is None:
            raise TypeError("the length of this source is not known before it ends")
        samples = self._samples(self._known)
        if self._options.batch_size is None:
            return samples
        whole, rest = divmod(samples, self._options.batch_size)
        return whole + (rest > 0 and not self._options.drop_last)

    def _samples(self, source: Source) -> int:
        return len(Order(len(source), shuffle=False, seed=0, epoch=0, shard=self._options.shard))

    def __iter__(self) -> LoaderIterator:
        """Begin the next epoch.

        Raises ``RuntimeError`` while another iterator of this loader is in use, or in a forked child;
        ``ClosedError`` after :meth:`close`.
        """
        if self._closed:
            raise ClosedError("the loader was closed; make another")
        other = self._iterator() if self._iterator is not None else None
        if other is not None and not other.ended:
            raise RuntimeError(
                "this loader is already being iterated; finish that iterator, drop it or call its close(), "
                "or make a second Loader"
            )
        source: Any = self._known
        if source is None:
            if self._run is not None and isinstance(self._source, (Iterator, AsyncIterator)):
                raise RuntimeError("this source is an iterator, and an epoch has used it; pass a list or an iterable")
            source = as_source(self._source)
        if self._thread is None:
            # In this order a Ctrl-C at any point leaves somebody who ends what was begun.
            self._thread = LoopThread(self._session)
            self._finalizer = weakref.finalize(self, self._thread.close)
            self._thread.start()
        self._thread.check_process()
        run, inbox = self._thread.open_run(source, self._options, self._epoch)
        self._epoch += 1
        self._run = run
        total = None if self._known is None else self._samples(self._known)
        bar = _Bar(total=total, unit="img", desc=f"epoch {self._epoch - 1}") if self._progress else None
        iterator = LoaderIterator(self, self._thread, run, inbox, self._options, bar)
        self._iterator = weakref.ref(iterator)
        return iterator

    def set_epoch(self, epoch: int) -> None:
        """Make the next ``iter()`` begin this epoch. Otherwise epochs count up from 0."""
        check_counter("epoch", epoch)
        self._epoch = epoch

    def stats(self) -> Stats:
        """The current epoch in figures, or the last one if none is running."""
        return (Counters(0, 0) if self._run is None else self._run.counters).snapshot()

    @property
    def failures(self) -> list[Failure]:
        """What the current epoch, or the last one, did not deliver, and why."""
        return [] if self._run is None else list(self._run.failures)

    def close(self) -> None:
        """End the pipeline: its thread, workers, connections and memory. May be called twice.

        Arrays that were delivered stay valid. An iterator that is still in use raises ``ClosedError``.
        """
        self._closed = True
        if self._finalizer is not None:
            self._finalizer()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Bar(tqdm):  # type: ignore[type-arg]  # generic in its type stubs, and not when it runs
    monitor_interval = 0  # no thread beside ours, that would stay


class LoaderIterator:
    """One epoch of a :class:`Loader`. Dropping it, or :meth:`close`, ends the epoch where it is."""

    def __init__(
        self, loader: Loader, thread: LoopThread, run: Run, inbox: Inbox, options: Options, bar: _Bar | None
    ) -> None:
        self._loader: Loader | None = loader  # so that a loader without a name lives as long as it is iterated
        self._thread = thread
        self._run = run
        self._inbox = inbox
        self._options = options
        self._bar = bar
        self._finalizer = weakref.finalize(self, thread.end_run, run)

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to come."""
        return not self._finalizer.alive

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        while self._finalizer.alive:
            self._thread.check_process()
            output = self._inbox.get(self._run)
            if isinstance(output, Failure):
                self._options.tell(output)
            elif output is None:
                self.close()
            elif isinstance(output, BaseException):
                self.close()
                raise output
            else:
                if self._bar is not None:
                    self._bar.update(samples_in(output))
                return output
        raise StopIteration

    def close(self) -> None:
        """End the epoch. May be called twice."""
        if self._finalizer.detach() is not None:
            if self._bar is not None:
                self._bar.close()
            try:
                self._thread.wait_for(self._run.close())
            except ClosedError:
                pass  # then it has ended
            self._loader = None


class LoaderOptions(TypedDict, total=False):
    """The options of :class:`Loader` that :func:`stream` takes."""

    ordered: bool
    shuffle: bool
    seed: int
    shard: Shard | None
    on_error: ErrorPolicy
    max_error_rate: float
    workers: int | None
    executor: Executor
    prefetch: int | None
    decode: bool | Decode
    http: Http
    progress: bool


def stream(source: AnySource, transform: Transform | None = None, **options: Unpack[LoaderOptions]) -> Iterator[Sample]:
    """One pass over ``source`` as a plain generator of samples: a :class:`Loader` that opens and closes itself.

    The options are the loader's, without those of batches. Closing the generator, or leaving its loop, ends it all.
    """
    if "batch_size" in options or "drop_last" in options:
        raise TypeError("stream: yields samples one by one; for batches iterate a Loader(..., batch_size=...)")
    return _samples_of(Loader(source, transform, **options))


def _samples_of(loader: Loader) -> Iterator[Sample]:
    with loader:
        yield from loader
