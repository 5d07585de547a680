"""The command line: ``asyncload demo``, ``asyncload bench`` and ``asyncload doctor``. Needs the extra ``cli``.

Its files, and which of the others each one uses::

    app.py            the commands put together; what all do about errors and Ctrl-C   <- bench demo doctor
    demo.py           a tour in a few seconds                    <- contact_sheet measure summary
    bench.py          how fast a source can be read              <- measure summary
    doctor.py         what is installed, and in use
    contact_sheet.py  many small pictures as a large one
    summary.py        what came of an epoch, in words            <- measure
    measure.py        one epoch, with a clock beside it
    options.py        options that several commands have
    terminal.py       where text and progress go
    ctrl_c.py         Ctrl-C, remembered
"""

from __future__ import annotations

import signal
import sys

from asyncload.cli import ctrl_c

__all__ = ["main"]


def main() -> None:
    """Run the command that ``sys.argv`` asks for, and exit with its status."""
    signal.signal(signal.SIGINT, ctrl_c.note)
    try:
        try:
            from asyncload.cli.app import app
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            print(f"asyncload: the command line needs {missing}; pip install 'asyncload[cli]'", file=sys.stderr)
            sys.exit(2)
        signal.signal(signal.SIGINT, ctrl_c.obey)
        ctrl_c.check()
        app(prog_name="asyncload")
    except KeyboardInterrupt:  # during the imports, or while another was obeyed
        sys.exit(130)
    finally:  # what is left is the interpreter's own end, which Ctrl-C now ends in silence
        signal.signal(signal.SIGINT, signal.SIG_DFL)
