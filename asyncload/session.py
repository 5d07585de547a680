"""The asynchronous face: the whole pipeline inside the caller's own event loop, without a thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import Any

from asyncload.decode import Decode
from asyncload.errors import ClosedError, Failure, SampleError, mask_url
from asyncload.fetch import Fetcher, Http
from asyncload.options import ErrorPolicy, Options, check_counter
from asyncload.pipeline import Download, Outbox, Output, Run, samples_in
from asyncload.pool.executors import Executor, make_pool
from asyncload.pool.jobs import CancelToken, Job, Result
from asyncload.sources import AnySource, as_source
from asyncload.stats import Counters, Stats
from asyncload.types import Item, Sample, Shard, Source, Transform

__all__ = ["Session", "Stream"]

DEFAULT_HTTP = Http()


class Session:
    """Loads images inside a running event loop. An async context manager; all of it is used from that one loop.

    ``transform`` is any callable ``(image, rng) -> image``, or ``None`` for the decoded image itself. ``workers`` is
    the number of decode workers: ``None`` for one for each usable core, 0 to decode in the loop's own thread, where a
    debugger can follow. ``executor`` is ``"process"``, or ``"thread"`` for the same code in threads of this process.
    ``http`` holds the settings of the network; ``decode`` is ``True``, the settings of the decoder, or ``False`` for
    the encoded bytes. ``seed`` is what the transform's randomness comes from, together with a sample's index.

    Raises ``TypeError`` or ``ValueError`` for an argument that cannot be meant: here, not when the session is opened.
    """

    def __init__(
        self,
        transform: Transform | None = None,
        *,
        workers: int | None = None,
        executor: Executor = "process",
        http: Http = DEFAULT_HTTP,
        decode: bool | Decode = True,
        seed: int = 0,
    ) -> None:
        if not isinstance(http, Http):
            raise TypeError(f"http: expected an asyncload.Http, got {http!r}")
        if not isinstance(decode, (bool, Decode)):
            raise TypeError(f"decode: expected True, False or an asyncload.Decode, got {decode!r}")
        if transform is not None and decode is False:
            raise ValueError("transform: with decode=False there is no image to transform")
        check_counter("seed", seed)
        self._seed = seed
        self._http = http
        self._decode = decode is not False
        self._pool = make_pool(
            transform,
            decode if isinstance(decode, Decode) else Decode(),
            workers=workers if self._decode else 0,
            executor=executor,
            arena_bytes=http.buffer_bytes,
            broken=self._end_all,
        )
        self._fetcher: Fetcher | None = None
        self._ended: tuple[type[Exception], str] | None = None
        self._closed = False
        self._counters = Counters(0, self._pool.workers)
        self._runs: set[Run] = set()
        self._loading: set[asyncio.Future[Result]] = set()

    async def __aenter__(self) -> Session:
        if self._fetcher is not None or self._closed:
            raise ClosedError("a session can be opened once; make another")
        self._fetcher = Fetcher(self._http)
        await self._fetcher.__aenter__()
        await self._pool.start()
        self._counters = Counters(0, self._pool.workers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End everything that is going on, and give back sockets, workers and memory. May be called twice.

        Streams and ``load`` calls that are still waiting raise :class:`~asyncload.errors.ClosedError`.
        """
        if self._closed:
            return
        self._closed = True
        self._end_all(ClosedError("the session was closed"))
        self._counters.end()
        for run in list(self._runs):
            await run.close()
        if self._fetcher is not None:
            await self._pool.close()
            await self._fetcher.aclose()

    async def load(self, url: str | os.PathLike[str], label: Any = None, *, index: int = 0) -> Sample:
        """Fetch, decode and transform one image. Cancelling the caller cancels the download.

        ``index`` is what the transform's randomness comes from, together with the session's seed.

        Raises a :class:`~asyncload.errors.SampleError` where that fails, ``ClosedError`` outside ``async with``.
        """
        fetcher = self._opened()
        check_counter("index", index)
        item = Item(index, os.fspath(url), label)
        download = Download(self._pool)
        started = perf_counter()
        try:
            fetched = await fetcher.fetch(item.url, allocate=download.allocate)
            nbytes = len(fetched.body)
            self._counters.bytes += nbytes
            self._counters.retried.update(fetched.retried)
            result = await self._work(download, item)
            if result.error is not None:
                result.error.attempts, result.error.status = fetched.attempts, fetched.status
                result.error.bytes, result.error.seconds = nbytes, fetched.seconds
                raise result.error
        except SampleError as error:
            self._counters.fail(error)
            error.add_note(f"while loading {mask_url(item.url)}")
            raise
        finally:
            self._counters.waited_seconds += perf_counter() - started
            download.discard()
        self._counters.samples += 1
        return Sample(item.index, item.url, item.label, result.value)

    async def _work(self, download: Download, item: Item) -> Result:
        body = download.hand_over()
        if not self._decode:
            value = bytes(body.view)
            body.release()
            return Result(value)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        token = CancelToken()
        self._loading.add(future)

        def done(result: Result) -> None:
            if not future.done():  # the session was closed, and the waiting task has not run since
                future.set_result(result)

        self._pool.submit(Job(body, (self._seed, 0, item.index), done, token))
        try:
            result = await future
        finally:
            token.cancelled = True
            self._loading.discard(future)
        self._counters.add_work(result.decode_seconds, result.transform_seconds, queued=self._pool.backlog > 0)
        return result

    async def fetch(self, url: str | os.PathLike[str]) -> bytes:
        """The bytes of ``url``, with all the retries and limits of ``http``, not decoded.

        Raises a :class:`~asyncload.errors.FetchError` where that fails, ``ClosedError`` outside ``async with``.
        """
        return bytes((await self._opened().fetch(os.fspath(url))).body)

    def stream(
        self,
        source: AnySource,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        ordered: bool = False,
        shuffle: bool = False,
        epoch: int = 0,
        shard: Shard | None = None,
        on_error: ErrorPolicy = "skip",
        max_error_rate: float = 0.1,
        prefetch: int | None = None,
    ) -> Stream:
        """One pass over ``source``: an async context manager around an async iterator of samples (or batches)::

            async with session.stream(urls) as samples:
                async for sample in samples:
                    ...

        The options are those of :class:`asyncload.Loader`; an ``on_error`` that is callable is called in this loop.
        Leaving the ``async with`` ends the downloads.

        Raises ``TypeError`` or ``ValueError`` for bad options or a source that is none.
        """
        options = Options(
            batch_size=batch_size,
            drop_last=drop_last,
            ordered=ordered,
            shuffle=shuffle,
            seed=self._seed,
            shard=shard,
            on_error=on_error,
            max_error_rate=max_error_rate,
            prefetch=prefetch,
        )
        check_counter("epoch", epoch)
        items = as_source(source)
        options.check_source(length_known=isinstance(items, Source))
        return Stream(partial(self.run, items, options, epoch), options)

    def run(
        self,
        source: Source | Iterator[Item] | AsyncIterator[Item],
        options: Options,
        epoch: int,
        outbox: Outbox,
    ) -> Run:
        """Begin one epoch of ``source`` into ``outbox``: what every face is made of."""
        run = Run(
            source,
            options,
            epoch=epoch,
            decode=self._decode,
            fetcher=self._opened(),
            pool=self._pool,
            outbox=outbox,
            closed=self._run_closed,
        )
        self._runs.add(run)
        run.start()
        return run

    def stats(self) -> Stats:
        """Everything that this session did since it was opened, in figures."""
        total = self._counters.copy()
        for run in self._runs:
            total.add(run.counters)
        return total.snapshot()

    def _opened(self) -> Fetcher:
        if self._ended is not None:
            kind, message = self._ended
            raise kind(message)
        if self._fetcher is None:
            raise ClosedError('the session is not open; use it inside "async with"')
        return self._fetcher

    def _run_closed(self, run: Run) -> None:
        if run in self._runs:
            self._runs.discard(run)
            self._counters.add(run.counters)

    def _end_all(self, error: Exception) -> None:
        """Nothing will be decoded any more: tell all who wait."""
        # Everyone gets an exception of their own: one that we kept would keep the frames of whoever caught it.
        kind, message = self._ended = self._ended or (type(error), str(error))
        for run in self._runs:
            run.stop(kind(message))
        for future in list(self._loading):
            if not future.done():
                future.set_exception(kind(message))


class Stream:
    """One pass over a source, from :meth:`Session.stream`."""

    def __init__(self, start: Any, options: Options) -> None:
        self._start = start
        self._options = options
        self._outputs: asyncio.Queue[Output] = asyncio.Queue()
        self._run: Run | None = None
        self._ended = False
        self.taken = 0

    async def __aenter__(self) -> Stream:
        if self._run is not None:
            raise ClosedError("a stream can be opened once; ask the session for another")
        self._run = self._start(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if self._run is not None:
            await self._run.close()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        if self._run is None:
            raise ClosedError('the stream is not open; use it inside "async with"')
        while not self._ended:
            output = await self._next(self._run)
            if isinstance(output, Failure):
                self._options.tell(output)
            elif output is None:
                self._ended = True
            elif isinstance(output, BaseException):
                self._ended = True
                raise output
            else:
                return output
        raise StopAsyncIteration

    async def _next(self, run: Run) -> Output:
        if self._outputs.empty():
            started = perf_counter()
            output = await self._outputs.get()
            run.counters.waited_seconds += perf_counter() - started
        else:
            output = self._outputs.get_nowait()
        self.taken += samples_in(output)
        if run.starved:
            run.pump()
        return output

    def put(self, output: Output) -> None:
        """For the run: leave an output."""
        self._outputs.put_nowait(output)

    def stats(self) -> Stats:
        """What this stream did so far, in figures."""
        return (Counters(0, 0) if self._run is None else self._run.counters).snapshot()

    @property
    def failures(self) -> list[Failure]:
        """What was not delivered, and why."""
        return [] if self._run is None else self._run.failures
