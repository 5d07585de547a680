"""From an event loop in a thread of its own to a caller who has none."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from time import perf_counter
from typing import Any, TypeVar

from asyncload.errors import ClosedError
from asyncload.options import Options
from asyncload.pipeline import Output, Run, samples_in
from asyncload.session import Session

__all__ = ["Inbox", "LoopThread"]

T = TypeVar("T")

CLOSE_TIMEOUT = 5.0
"""Seconds that ``close`` waits for the thread. All that it does has a shorter limit, except a file system that hangs;
then the thread, a daemon, is left behind."""


class Inbox:
    """The consumer's end of a run: an unbounded queue, bounded by the run, which sees how much was taken.

    ``SimpleQueue`` is written in C: a ready output costs its consumer less than a microsecond, and a consumer that
    waits is parked on a lock that Ctrl-C interrupts.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._outputs: SimpleQueue[Output] = SimpleQueue()
        self.put = self._outputs.put
        self.taken = 0

    def get(self, run: Run) -> Output:
        """The next output of ``run``; waits for it."""
        if self._outputs.empty():
            started = perf_counter()
            output = self._outputs.get()
            run.counters.waited_seconds += perf_counter() - started
        else:
            output = self._outputs.get()
        self.taken += samples_in(output)
        if run.starved:
            run.starved = False
            call_soon(self._loop, run.pump)
        return output


def call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *arguments: Any) -> bool:
    """Have ``callback`` called in ``loop``. False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        return False
    return True


class LoopThread:
    """A session inside an event loop inside a daemon thread, from :meth:`start` to :meth:`close`.

    A daemon, because the interpreter waits for other threads before it runs the finalizers that would end this one.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._process = os.getpid()
        self._runner = asyncio.Runner(loop_factory=_loop_factory())
        self.loop = self._runner.get_loop()
        self._opened: Future[None] = Future()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="asyncload-loop", daemon=True)

    def start(self) -> None:
        """Open the session. Whoever is interrupted in here can still :meth:`close`."""
        with _signals_blocked():
            self._thread.start()
        self._opened.result()

    def check_process(self) -> None:
        """Raises ``RuntimeError`` in a forked child: threads, sockets and workers stayed with the parent."""
        if os.getpid() != self._process:
            raise RuntimeError("this loader was started before a fork; make another one in the child process")

    def open_run(self, source: Any, options: Options, epoch: int) -> tuple[Run, Inbox]:
        """Begin an epoch."""
        inbox = Inbox(self.loop)

        async def begin() -> Run:
            return self._session.run(source, options, epoch, inbox)

        beginning = asyncio.run_coroutine_threadsafe(begin(), self.loop)
        try:
            return beginning.result(), inbox
        except BaseException:  # Ctrl-C: the epoch begins all the same, and nobody will iterate it
            beginning.add_done_callback(self._end_unseen)
            raise

    def _end_unseen(self, beginning: Future[Run]) -> None:
        if not beginning.cancelled() and beginning.exception() is None:
            self.end_run(beginning.result())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs in the loop. Raises ``ClosedError`` if there is no loop any more."""
        if not self._thread.is_alive():
            work.close()
            raise ClosedError("the loader was closed")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def end_run(self, run: Run) -> None:
        """End an epoch without waiting: for whoever drops an iterator, in whatever thread that happens."""
        if os.getpid() == self._process:
            call_soon(self.loop, lambda: self.loop.create_task(run.close()))

    def close(self) -> None:
        """End the session and the thread. May be called twice; does nothing in a forked child, which has neither."""
        if os.getpid() != self._process:
            return
        if self._thread.ident is None:  # interrupted before it was started
            self._runner.close()
            return
        call_soon(self.loop, self._closing.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_TIMEOUT)

    def _run(self) -> None:
        with self._runner:
            try:
                self._runner.run(self._serve())
            except BaseException as error:
                if self._opened.done():
                    raise
                self._opened.set_exception(error)  # raised to whoever is starting us

    async def _serve(self) -> None:
        async with self._session:
            self._opened.set_result(None)
            await self._closing.wait()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A thread that is started in here, and the threads that it starts, are never the ones to receive a signal.

    The kernel may give a signal to any thread that does not block it. Python runs the handler in the main thread, but
    does not wake it for that: a main thread that waits for a batch would never hear of Ctrl-C.
    """
    if sys.platform == "win32":
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
