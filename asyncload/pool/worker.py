"""A decode worker process: ``python -m asyncload.pool.worker FD``, ``FD`` being its end of a socket pair.

It lives as long as the other end is open. It unpickles once, what its parent sends at the start; what it sends back is
records and raw bytes.
"""

from __future__ import annotations

import pickle
import signal
import socket
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncload.errors import DecodeError, TransformError
from asyncload.pool.jobs import Result
from asyncload.pool.memory import Segment, receive, send
from asyncload.pool.records import COMMAND_BYTES, Command, Kind, Report
from asyncload.pool.values import pack_into, packed_size, prepare
from asyncload.pool.work import Work

__all__ = ["main"]

RETAINED_BYTES = 64 << 20
"""An outbox larger than this is given up after use, so that one giant image does not stay in memory."""


class Worker:
    """Commands in, reports out, one after the other."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._fds: list[int] = []
        self._slots: dict[int, tuple[Segment, NDArray[Any]]] = {}
        self._outboxes: dict[int, Segment] = {}
        self._work: Work
        self._arena: Segment

    def serve(self) -> None:
        """Work until the parent hangs up."""
        pending = b""
        while True:
            data, fds = receive(self._sock, 64 * COMMAND_BYTES)
            if not data:
                return
            self._fds += fds
            pending += data
            while len(pending) >= COMMAND_BYTES:
                command = Command.unpack(pending[:COMMAND_BYTES])
                pending = pending[COMMAND_BYTES:]
                self._handle(command)

    def _handle(self, command: Command) -> None:
        if command.kind is Kind.JOB:
            self._do(command)
        elif command.kind is Kind.SLOT:
            segment = Segment.received(self._fds.pop(0))
            array = np.ndarray(command.shape, np.dtype(command.text.decode()), buffer=segment.buffer)
            self._slots[command.slot] = segment, array
        elif command.kind is Kind.FORGET_SLOT:
            segment, array = self._slots.pop(command.slot)
            del array
            segment.close()
        elif command.kind is Kind.START:
            self._arena = Segment.received(self._fds.pop(0))
            pickled = Segment.received(self._fds.pop(0))
            try:
                self._work = Work(*pickle.loads(memoryview(pickled.buffer)[: command.nbytes]), shared=False)
            except BaseException as error:  # whatever a user's module does on import: say it, do not just die
                self._report(Report(Kind.FATAL, text=_text(f"{type(error).__name__}: {error}")))
                raise SystemExit(1) from None
            pickled.close()
            if "cv2" in sys.modules:
                sys.modules["cv2"].setNumThreads(1)  # the workers are the parallelism
            self._report(Report(Kind.READY))

    def _do(self, command: Command) -> None:
        row = self._slots[command.slot][1][command.row] if command.slot else None
        private = Segment.received(self._fds.pop(0)) if command.private else None
        body = (private or self._arena).buffer
        data = memoryview(body)[command.offset : command.offset + command.nbytes]
        result = self._work.run(data, (command.seed, command.epoch, command.item), row)
        data.release()
        if private is not None:
            private.close()
        self._answer(command.outbox, result)

    def _answer(self, number: int, result: Result) -> None:
        seconds = result.decode_seconds, result.transform_seconds
        if result.error is None and not result.in_row:
            try:
                prepared = prepare(result.value)
            except TypeError as error:
                result.error = TransformError(
                    f"{error}, which cannot leave a worker process: return arrays, numbers, text, bytes, None, or "
                    'lists, tuples and dicts of these, or use executor="thread"',
                    reason="bad_result",
                )
        if result.error is not None:
            kind = Kind.DECODE_ERROR if isinstance(result.error, DecodeError) else Kind.TRANSFORM_ERROR
            reason = result.error.reason.encode()
            self._report(Report(kind, number, 0, 0, *seconds, reason, _text(str(result.error))))
        elif result.in_row:
            self._report(Report(Kind.IN_SLOT, number, 0, 0, *seconds))
        else:
            nbytes = packed_size(prepared)
            outbox = self._outboxes.get(number)
            replaced = outbox is None or outbox.nbytes < nbytes
            if outbox is None or replaced:
                if outbox is not None:
                    outbox.close()
                outbox = self._outboxes[number] = Segment(nbytes + nbytes // 4)  # room to grow into
            pack_into(prepared, memoryview(outbox.buffer))
            report = Report(Kind.IN_OUTBOX, number, replaced, nbytes, *seconds)
            self._report(report, *((outbox.fd,) if replaced else ()))
            if outbox.nbytes > RETAINED_BYTES:
                outbox.close()
                del self._outboxes[number]

    def _report(self, report: Report, *fds: int) -> None:
        send(self._sock, report.pack(), fds)


def _text(message: str) -> bytes:
    return message.encode("utf-8", "replace")[:400]


def main() -> None:
    # Ctrl-C reaches the whole process group: the parent decides what it means. Until here it was blocked, together with
    # whatever else the thread that started us did not want to hear of.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with socket.socket(fileno=int(sys.argv[1])) as sock:
        try:
            Worker(sock).serve()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the parent is gone


if __name__ == "__main__":
    main()
