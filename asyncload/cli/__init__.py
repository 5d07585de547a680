"""The command line: ``asyncload demo``, ``asyncload bench`` and ``asyncload doctor``. Needs the extra ``cli``.

app.py            the commands put together; what they all do about errors and Ctrl-C
demo.py           a tour in a few seconds         <- contact_sheet measure summary terminal
bench.py          how fast a source can be read   <- measure summary terminal
doctor.py         what is installed, and in use   <- terminal
contact_sheet.py  many small pictures as a large one
measure.py        one epoch, with a clock beside it
summary.py        what came of it, in words       <- measure terminal
terminal.py       where text and progress go
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["main"]


def main() -> None:
    """Run the command that ``sys.argv`` asks for, and exit with its status."""
    try:
        try:
            with _ctrl_c_later():
                from asyncload.cli.app import app
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            print(f"asyncload: the command line needs {missing}; pip install 'asyncload[cli]'", file=sys.stderr)
            sys.exit(2)
        app(prog_name="asyncload")
    except KeyboardInterrupt:  # that came during the imports, or while another was obeyed
        sys.exit(130)
    finally:  # what is left is the interpreter's own end, which Ctrl-C now ends in silence
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at the end: modules made by Cython (numpy.random is one) lose it when they begin."""
    came: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    yield
    signal.signal(signal.SIGINT, usual)
    if came:
        raise KeyboardInterrupt
