"""Workers in processes of our own: supervised, replaced when they die, and sharing memory with us by descriptor.

A worker gets at most ``DEPTH`` jobs ahead and does them in order, so when it dies the first unanswered one was in its
hands: that one is the suspect. It is run once more; a second death makes it a ``WorkerError``. The others are run again
as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from asyncload.errors import BrokenPoolError, DecodeError, TransformError, WorkerError
from asyncload.pool.inline import HeapSlot
from asyncload.pool.jobs import Job, Result, SlotMemory
from asyncload.pool.memory import Arena, Block, Segment, receive, send
from asyncload.pool.records import REPORT_BYTES, Command, Kind, Report
from asyncload.pool.values import unpack
from asyncload.pool.worker import RETAINED_BYTES

__all__ = ["ProcessPool"]

DEPTH = 3
"""Jobs a worker is given ahead: one in hand, and two so that it need not wait for us between small images."""

SHARED_SLOTS_MAX = 64
"""Batches in shared memory at a time, each of which costs two descriptors here. A consumer that keeps more of them gets
the rest in ordinary memory, through a copy."""

CLOSE_TIMEOUT = 1.0
"""Seconds that ``close`` waits for workers that are in the middle of an image, before it kills them."""

_SLOT_KINDS = "biufc"
_SLOT_DIMENSIONS_MAX = 7


class ProcessSlot:
    """Batch rows that workers write into directly."""

    __slots__ = ("_forget", "description", "number", "segment")

    def __init__(
        self, number: int, shape: tuple[int, ...], dtype: np.dtype[Any], forget: Callable[[ProcessSlot], None]
    ) -> None:
        self.number = number
        self.segment = Segment(int(np.prod(shape)) * dtype.itemsize)
        self.description = Command(Kind.SLOT, slot=number, shape=shape, text=dtype.str.encode())
        self._forget = forget

    @property
    def buffer(self) -> mmap.mmap:
        return self.segment.buffer

    def close(self) -> None:
        self._forget(self)
        self.segment.close()


class _Given(NamedTuple):
    """A job in a worker's hands."""

    job: Job
    outbox: int
    in_slot: bool  # whether it was told of a row


class _Worker:
    """Our side of one worker process."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.process = process
        self.sock = sock
        self.ready = False
        self.gone = False
        self.jobs: deque[_Given] = deque()  # unanswered, in order
        self.free_outboxes = list(range(DEPTH))
        self.outboxes: dict[int, Segment] = {}
        self.slots: set[int] = set()
        self.pending = b""
        self.fds: list[int] = []


class ProcessPool:
    """``executor="process"``. ``pickled`` is the arguments of ``Work``, pickled once."""

    def __init__(self, pickled: bytes, workers: int, arena_bytes: int, broken: Callable[[Exception], None]) -> None:
        self.workers = workers
        self.crashes = 0
        self.broken = broken
        self._pickled = pickled
        self._arena_bytes = arena_bytes
        self._queue: deque[Job] = deque()
        self._workers: set[_Worker] = set()
        self._places: deque[_Worker] = deque()  # a worker is here once for each job that it may yet be given
        self._slots: dict[int, ProcessSlot] = {}
        self._slots_made = 0
        self._unproductive_deaths = 0
        self._closing = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._all_gone = asyncio.Event()
        self._arena = Arena(self._arena_bytes)
        self._work = Segment(len(self._pickled))
        self._work.buffer[: len(self._pickled)] = self._pickled
        for _ in range(self.workers):
            self._spawn()

    # What the pipeline calls

    def allocate(self, nbytes: int) -> Block:
        return self._arena.allocate(nbytes)

    def slot_memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> SlotMemory:
        shareable = dtype.kind in _SLOT_KINDS and len(shape) <= _SLOT_DIMENSIONS_MAX
        if shareable and len(self._slots) < SHARED_SLOTS_MAX:
            self._slots_made += 1
            try:
                slot = ProcessSlot(self._slots_made, shape, dtype, self._forget)
            except OSError:  # no descriptors or no shared memory left: a copy for each image is still a batch
                return HeapSlot(int(np.prod(shape)) * dtype.itemsize)
            self._slots[slot.number] = slot
            return slot
        return HeapSlot(int(np.prod(shape)) * dtype.itemsize)

    def submit(self, job: Job) -> None:
        self._queue.append(job)
        self._dispatch()

    @property
    def backlog(self) -> int:
        return len(self._queue)

    async def close(self) -> None:
        self._closing = True
        for worker in list(self._workers):
            if worker.ready:
                worker.sock.shutdown(socket.SHUT_WR)
            else:
                worker.process.kill()  # still importing: it has nothing in hand
        if self._workers:
            try:
                await asyncio.wait_for(self._all_gone.wait(), CLOSE_TIMEOUT)
            except TimeoutError:
                for worker in list(self._workers):
                    self._reap(worker)
        for job in self._queue:
            job.body.release()
        self._queue.clear()
        self._arena.close()
        self._work.close()

    # Workers come and go

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        # The worker imports what this process can import. -P: the working directory is not one of the places, unless
        # it is one here.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        command = [sys.executable, "-P", "-m", "asyncload.pool.worker", str(theirs.fileno())]
        # Blocked across the start, so that a Ctrl-C that comes while it imports does not end it with a traceback.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**single, **os.environ, "PYTHONPATH": path},
            )
        except OSError as error:
            ours.close()
            self._break(BrokenPoolError(f"cannot start a decode worker ({sys.executable!r}): {error}"))
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        ours.setblocking(False)
        worker = _Worker(process, ours)
        self._workers.add(worker)
        start = Command(Kind.START, nbytes=len(self._pickled))
        send(ours, start.pack(), (self._arena.segment.fd, self._work.fd))
        self._loop.add_reader(ours, self._readable, worker)

    def _reap(self, worker: _Worker) -> int:
        """Take leave of a worker that is dead or must be. Returns its exit code."""
        self._loop.remove_reader(worker.sock)
        worker.gone = True
        worker.process.kill()  # after the end of its stream it is dying: this does not change how
        code = worker.process.wait()
        worker.sock.close()
        for fd in worker.fds:
            os.close(fd)
        for outbox in worker.outboxes.values():
            outbox.close()
        self._workers.discard(worker)
        if self._closing:
            for given in worker.jobs:
                given.job.body.release()
            if not self._workers:
                self._all_gone.set()
        return code

    def _lost(self, worker: _Worker) -> None:
        code = self._reap(worker)
        if self._closing:
            return
        self.crashes += 1
        self._unproductive_deaths += 1
        how = _describe_exit(code)
        again = [given.job for given in worker.jobs]
        if again:
            suspect = again[0]
            suspect.crashes += 1
            if suspect.crashes == 2:
                del again[0]
                error = WorkerError(f"the decode worker died twice on it ({how})", reason="worker_crash")
                suspect.answer(Result(error=error))
        self._queue.extendleft(reversed(again))
        if self._unproductive_deaths > 3 + 2 * self.workers:
            self._break(BrokenPoolError(f"{self._unproductive_deaths} decode workers died one after the other ({how})"))
        else:
            self._spawn()

    def _break(self, error: BrokenPoolError) -> None:
        self._closing = True
        self.broken(error)

    # Jobs go out

    def _dispatch(self) -> None:
        while self._queue and self._places:
            job = self._queue.popleft()
            if job.token.cancelled:
                job.body.release()
                continue
            worker = self._places.popleft()
            if worker.gone:
                self._queue.appendleft(job)
            else:
                self._give(worker, job)

    def _give(self, worker: _Worker, job: Job) -> None:
        block = job.body
        assert isinstance(block, Block)  # every body comes from our own allocate()
        fds: tuple[int, ...] = ()
        records = b""
        row = job.row
        slot = row.memory if row is not None and isinstance(row.memory, ProcessSlot) else None
        if slot is not None and slot.number not in worker.slots:
            worker.slots.add(slot.number)
            records = slot.description.pack()
            fds = (slot.segment.fd,)
        if block.is_private:
            fds += (block.segment.fd,)
        outbox = worker.free_outboxes.pop()
        records += Command(
            Kind.JOB,
            outbox,
            slot.number if slot is not None else 0,
            row.number if row is not None else 0,
            block.is_private,
            block.offset,
            block.nbytes,
            *job.key,
        ).pack()
        worker.jobs.append(_Given(job, outbox, slot is not None))
        self._send(worker, records, fds)

    def _send(self, worker: _Worker, records: bytes, fds: tuple[int, ...] = ()) -> None:
        try:
            send(worker.sock, records, fds)
        except OSError:
            # Dead, or stopped for so long that its socket is full. The end of its stream tells which, and what to do.
            worker.process.kill()

    def _forget(self, slot: ProcessSlot) -> None:
        if self._slots.pop(slot.number, None) is None or self._closing:
            return
        record = Command(Kind.FORGET_SLOT, slot=slot.number).pack()
        for worker in self._workers:
            if slot.number in worker.slots:
                worker.slots.discard(slot.number)
                self._send(worker, record)

    # Reports come in

    def _readable(self, worker: _Worker) -> None:
        try:
            data, fds = receive(worker.sock, 16 * REPORT_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data, fds = b"", []
        if not data:
            self._lost(worker)
            return
        worker.fds += fds
        worker.pending += data
        try:
            while len(worker.pending) >= REPORT_BYTES and not worker.gone:
                report = Report.unpack(worker.pending[:REPORT_BYTES])
                worker.pending = worker.pending[REPORT_BYTES:]
                self._handle(worker, report)
        except (ValueError, LookupError, OSError):
            worker.process.kill()  # it does not keep to the protocol: nothing of it can be trusted
        self._dispatch()

    def _handle(self, worker: _Worker, report: Report) -> None:
        if report.kind is Kind.READY:
            worker.ready = True
            self._places.extend([worker] * DEPTH)
            return
        if report.kind is Kind.FATAL:
            self._break(BrokenPoolError(f"a decode worker cannot load the transform: {_text(report.text)}"))
            return
        given = worker.jobs[0]
        if report.outbox != given.outbox:
            raise ValueError("an answer to another job")
        result = self._result(worker, given, report)
        worker.jobs.popleft()
        worker.free_outboxes.append(given.outbox)
        self._places.append(worker)
        self._unproductive_deaths = 0
        given.job.answer(result)

    def _result(self, worker: _Worker, given: _Given, report: Report) -> Result:
        result = Result(decode_seconds=report.decode_seconds, transform_seconds=report.transform_seconds)
        if report.kind is Kind.IN_SLOT:
            if not given.in_slot:
                raise ValueError("a result in a row that it was not given")
            result.in_row = True
        elif report.kind is Kind.IN_OUTBOX:
            if report.replaced:
                if report.outbox in worker.outboxes:
                    worker.outboxes.pop(report.outbox).close()
                worker.outboxes[report.outbox] = Segment.received(worker.fds.pop(0))
            outbox = worker.outboxes[report.outbox]
            result.value = unpack(memoryview(outbox.buffer)[: report.nbytes])
            if outbox.nbytes > RETAINED_BYTES:
                worker.outboxes.pop(report.outbox).close()
        elif report.kind is Kind.DECODE_ERROR:
            result.error = DecodeError(_text(report.text), reason=_text(report.reason))
        elif report.kind is Kind.TRANSFORM_ERROR:
            result.error = TransformError(_text(report.text), reason=_text(report.reason))
        else:
            raise ValueError(f"not a report: {report.kind!r}")
        return result


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _describe_exit(code: int) -> str:
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
