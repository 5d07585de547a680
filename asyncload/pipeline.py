"""One pass over a source: what is in flight, what is delivered, what failed.

    source ── item ──▶ lanes: fetch ── body ──▶ backlog ──▶ pool ── result ──▶ collator ── sample, batch ──▶ outbox

A lane is a coroutine that takes an item, fetches it, leaves the body in the backlog and takes the next. Nobody waits
for the consumer with a connection open: a body goes to the pool only while fewer than ``capacity`` samples are decoded
and not taken, and a lane takes an item only while few enough items and bytes are in flight. So back-pressure runs from
the consumer to the sockets.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Protocol

import numpy as np

from asyncload.collate import Loaded, make_collator
from asyncload.errors import Failure, FetchError, SampleError, TooManyErrors
from asyncload.fetch import Fetcher
from asyncload.options import Options
from asyncload.pool.jobs import Body, CancelToken, Job, Pool, Result
from asyncload.sampling import Feed
from asyncload.slots import Row, Slots
from asyncload.stats import Counters
from asyncload.types import Batch, Item, Sample, Source

__all__ = ["Download", "Outbox", "Output", "Run", "samples_in"]

Output = Sample | Batch | Failure | BaseException | None
"""What a run leaves for its consumer. A ``Failure`` is for the caller's ``on_error``; an exception ends the epoch, and
``None`` is its ordinary end."""

ERROR_RATE_AFTER = 100
"""Outcomes before ``max_error_rate`` is looked at: the rate of a handful says nothing."""

REPLACEMENTS_MAX = 100
"""Samples tried in the place of one that failed, before the source is taken for dead."""

_logger = logging.getLogger("asyncload")


def samples_in(output: Output) -> int:
    """How many samples an output counts for."""
    if isinstance(output, Sample):
        return 1
    return len(output) if isinstance(output, Batch) else 0


class Outbox(Protocol):
    """Where a run leaves its outputs, without waiting: the run itself sees to it that there are few."""

    taken: int
    """How many samples the consumer has taken."""

    def put(self, output: Output) -> None: ...


class Download:
    """Memory for one body on its way from a fetcher to a pool. Whoever has it at the end discards it."""

    __slots__ = ("_pool", "body")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.body: Body | None = None

    def allocate(self, nbytes: int) -> memoryview:
        """Memory for ``nbytes``; what an earlier attempt had is given back."""
        self.discard()
        self.body = self._pool.allocate(nbytes)
        return self.body.view

    def hand_over(self) -> Body:
        """The body, now the receiver's to release."""
        body, self.body = self.body, None
        assert body is not None
        return body

    def discard(self) -> None:
        if self.body is not None:
            self.hand_over().release()


class _Ticket(Download):
    """An item on its way."""

    __slots__ = ("attempts", "item", "nbytes", "replaced", "row", "seconds", "sequence", "status")

    def __init__(self, pool: Pool, item: Item, sequence: int, replaced: int = 0, row: Row | None = None) -> None:
        super().__init__(pool)
        self.item = item
        self.sequence = sequence
        self.replaced = replaced  # how many samples failed in this place before
        self.row = row
        self.nbytes = 0
        self.attempts = 0
        self.status: int | None = None
        self.seconds = 0.0


class Run:
    """One epoch of one source, inside one event loop.

    :meth:`close` must be awaited, whether it ended or not; ``closed`` is called then.
    """

    def __init__(
        self,
        source: Source | Iterator[Item] | AsyncIterator[Item],
        options: Options,
        *,
        epoch: int,
        decode: bool,
        fetcher: Fetcher,
        pool: Pool,
        outbox: Outbox,
        closed: Callable[[Run], None],
    ) -> None:
        self.counters = Counters(epoch, pool.workers)
        self.failures: list[Failure] = []
        self.starved = False  # there is something to decode, and the consumer must take something first
        self._closed = closed
        self._source = source
        self._options = options
        self._epoch = epoch
        self._decode = decode
        self._fetcher = fetcher
        self._pool = pool
        self._crashes_before = pool.crashes
        self._outbox = outbox
        self._feed = Feed(source, shuffle=options.shuffle, seed=options.seed, epoch=epoch, shard=options.shard)

        workers = max(1, pool.workers)
        self._slots: Slots | None = None
        if options.batch_size is None:
            self._capacity = 8 * workers if options.prefetch is None else options.prefetch
        else:
            ready = 2 if options.prefetch is None else options.prefetch
            rows = options.batch_size
            if self._feed.order is not None:
                rows = max(1, min(rows, len(self._feed.order)))
            # The ready ones, the one being filled, and what keeps the workers busy while its last rows are written.
            self._capacity = (ready + 1) * rows + 4 * workers
            self._slots = Slots(rows, pool.slot_memory, spares=ready + 2)
        self._collator = make_collator(
            outbox.put, self._slots, options.batch_size, ordered=options.ordered, drop_last=options.drop_last
        )

        # Twice the sockets, so that items which wait for a second attempt or for their host leave none of them idle.
        self._in_flight_max = 2 * fetcher.http.connections
        self._in_flight = 0  # items taken from the source that have no outcome yet
        self._fetching = 0
        self._body_bytes = 0  # downloaded, and not decoded yet
        self._bodies = 0
        self._bodies_bytes_seen = 0
        self._backlog: list[tuple[int, _Ticket]] = []  # a heap: the earliest item first
        self._decoding = 0
        self._exhausted = False
        self._over = False
        self._token = CancelToken()
        self._again: deque[_Ticket] = deque()
        self._parked: deque[asyncio.Future[None]] = deque()
        self._lanes: list[asyncio.Task[None]] = []

    def start(self) -> None:
        length = self._in_flight_max if self._feed.order is None else len(self._feed.order)
        lanes = max(1, min(self._in_flight_max, length))
        self._lanes = [asyncio.create_task(self._lane()) for _ in range(lanes)]

    async def close(self) -> None:
        """Stop whatever is still going on and give everything back. Delivered arrays stay valid."""
        self._over = self._token.cancelled = True
        self.counters.end()
        for lane in self._lanes:
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)
        for _, ticket in self._backlog:
            ticket.discard()
        self._backlog.clear()
        if self._slots is not None:
            self._slots.close()
        self._closed(self)

    def stop(self, error: BaseException) -> None:
        """End the epoch with ``error``, after the outputs that are ready."""
        if not self._over:
            self._over = True
            self.counters.end()
            self._outbox.put(error)
            self._wake(len(self._parked))

    # Lanes: from the source to the backlog

    async def _lane(self) -> None:
        try:
            while (ticket := await self._take()) is not None:
                await self._fetch(ticket)
        except Exception as error:  # the caller's source raised; or we did, and then the caller must not wait for ever
            self.stop(error)

    async def _take(self) -> _Ticket | None:
        while not self._over:
            if self._again:
                return self._again.popleft()
            if not self._exhausted and self._has_room():
                self._in_flight += 1
                taken = await self._feed.next()
                if taken is not None:
                    if self._parked and self._has_room():
                        self._wake()
                    return _Ticket(self._pool, taken[1], taken[0])
                self._exhausted = True
                self._settled()
            else:
                await self._park()
        return None

    def _has_room(self) -> bool:
        if self._in_flight >= self._in_flight_max:
            return False
        mean = self._bodies_bytes_seen / self._bodies if self._bodies else 0
        return self._body_bytes + (self._fetching + 1) * mean <= self._fetcher.http.buffer_bytes or not self._in_flight

    async def _park(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._parked.append(future)
        await future

    def _wake(self, lanes: int = 1) -> None:
        while lanes and self._parked:
            future = self._parked.popleft()
            if not future.done():
                future.set_result(None)
                lanes -= 1

    async def _fetch(self, ticket: _Ticket) -> None:
        self._fetching += 1
        try:
            fetched = await self._fetcher.fetch(ticket.item.url, allocate=ticket.allocate)
        except FetchError as error:
            ticket.discard()
            self.counters.retried.update(error.retried)
            self._fail(ticket, error)
            await asyncio.sleep(0)  # a list of URLs that are refused unasked must not keep the loop to itself
            return
        except BaseException:
            ticket.discard()
            raise
        finally:
            self._fetching -= 1
        ticket.attempts, ticket.status, ticket.seconds = fetched.attempts, fetched.status, fetched.seconds
        if fetched.retried:
            self.counters.retried.update(fetched.retried)
        ticket.nbytes = len(fetched.body)
        self.counters.bytes += ticket.nbytes
        self._body_bytes += ticket.nbytes
        self._bodies += 1
        self._bodies_bytes_seen += ticket.nbytes
        heapq.heappush(self._backlog, (ticket.sequence, ticket))
        self.pump()

    # From the backlog to the outbox

    def pump(self) -> None:
        """Decode what there is room for. After :attr:`starved` was seen, the consumer calls this when it took more."""
        while self._backlog and not self._over:
            # Said before it is found out, so that a consumer which takes something in between does not miss it.
            self.starved = True
            if self._collator.load(self._backlog[0][0], self._decoding) - self._outbox.taken >= self._capacity:
                return
            self.starved = False
            self._submit(heapq.heappop(self._backlog)[1])

    def _submit(self, ticket: _Ticket) -> None:
        self._decoding += 1
        row = ticket.row = ticket.row or self._collator.row(ticket.sequence)
        body = ticket.hand_over()
        if not self._decode:
            value = bytes(body.view)
            body.release()
            self._settle(ticket, Result(value))
            return
        key = (self._options.seed, self._epoch, ticket.item.index)
        self._pool.submit(Job(body, key, partial(self._done, ticket), self._token, row))

    def _done(self, ticket: _Ticket, result: Result) -> None:
        if self._over:
            return
        try:
            queued = self._pool.backlog > 0
            self.counters.add_work(result.decode_seconds, result.transform_seconds, queued=queued)
            self.counters.worker_crashes = self._pool.crashes - self._crashes_before
            self._settle(ticket, result)
            self.pump()
        except Exception as error:  # called by the loop, which would only log it
            self.stop(error)

    def _settle(self, ticket: _Ticket, result: Result) -> None:
        self._body_bytes -= ticket.nbytes
        self._decoding -= 1
        if result.error is not None:
            error = result.error
            error.attempts, error.status, error.bytes = ticket.attempts, ticket.status, ticket.nbytes
            error.seconds = ticket.seconds
            self._fail(ticket, error)
            return
        in_row = result.in_row
        if not in_row and ticket.row is not None and self._slots is not None:
            in_row = self._slots.settle(result.value, ticket.row)
        self.counters.samples += 1
        self._collator.add(ticket.sequence, Loaded(ticket.item, None if in_row else result.value, ticket.row, in_row))
        self._settled()

    def _settled(self) -> None:
        self._in_flight -= 1
        self._check_error_rate()
        if self._over:
            return
        if self._exhausted and not self._in_flight:
            self._finish()
        elif self._parked:
            self._wake()

    def _finish(self) -> None:
        counters = self.counters
        if counters.failed and not counters.samples and self._options.max_error_rate < 1:
            self.stop(self._too_many())
            return
        counters.dropped = self._collator.finish()
        counters.samples -= counters.dropped
        counters.end()
        if counters.failed:
            _logger.warning("%s", counters.snapshot())
        self._over = True
        self._outbox.put(None)
        self._wake(len(self._parked))

    # What failed

    def _fail(self, ticket: _Ticket, error: SampleError) -> None:
        failure = Failure.of(ticket.item, error)
        self.failures.append(failure)
        self.counters.fail(error)
        on_error = self._options.on_error
        if on_error == "raise":
            error.add_note(f"while loading sample {failure.index}: {failure.url}")
            self.stop(error)
        elif callable(on_error):
            self._outbox.put(failure)
        if on_error == "replace":
            self._check_error_rate()
            self._replace(ticket)
        else:
            self._collator.leave_out(ticket.sequence, ticket.row)
            self._settled()

    def _check_error_rate(self) -> None:
        failed = self.counters.failed
        outcomes = failed + self.counters.samples
        # What is in flight is taken to be good: failures are often quicker than images, above all in the beginning.
        share = failed / (outcomes + self._in_flight) if failed else 0
        if outcomes > ERROR_RATE_AFTER and share > self._options.max_error_rate:
            self.stop(self._too_many())

    def _replace(self, ticket: _Ticket) -> None:
        """Another sample of the same shard, chosen by seed, in the same place."""
        if ticket.replaced == REPLACEMENTS_MAX:
            self.stop(self._too_many())
            return
        order = self._feed.order
        assert order is not None
        assert isinstance(self._source, Source)
        words = (self._options.seed, self._epoch, ticket.item.index, ticket.replaced)
        position = int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0]) % len(order)
        item = self._source[order[position]]
        self._again.append(_Ticket(self._pool, item, ticket.sequence, ticket.replaced + 1, ticket.row))
        self._wake()

    def _too_many(self) -> TooManyErrors:
        counters, last = self.counters, self.failures[-1]
        outcomes = counters.failed + counters.samples
        reasons = ", ".join(f"{count} {reason}" for reason, count in counters.reasons.most_common())
        return TooManyErrors(
            f"{counters.failed} of {outcomes} samples failed ({reasons}), more than max_error_rate="
            f"{self._options.max_error_rate:g} allows; the last: {last.message} ({last.url})"
        )
