"""Where text and progress go: text to the standard output, progress and errors to the standard error output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

__all__ = ["errors", "output", "printable", "progress"]

_WIDTH_OF_FILES = 120


def output() -> Console:
    """The console for what was asked for."""
    return _console(sys.stdout)


def errors() -> Console:
    """The console for everything else."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    # Markup, highlighting and emoji codes would change URLs, which may contain anything.
    width = None if file.isatty() else _WIDTH_OF_FILES
    return Console(file=file, width=width, markup=False, highlight=False, emoji=False)


def printable(text: str) -> str:
    """``text`` without what a terminal would obey or cannot show: URLs and messages come from strangers."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


@contextmanager
def progress(console: Console, title: str, total: int, state: Callable[[], tuple[int, str]]) -> Iterator[None]:
    """Show how far something is, where ``console`` is a terminal. ``state`` returns what is done, and a note."""
    if not console.is_interactive:
        yield
        return
    with Live(_Line(title, total, state), console=console, refresh_per_second=8, transient=True):
        yield


class _Line:
    """Asks for the state whenever it is drawn."""

    def __init__(self, title: str, total: int, state: Callable[[], tuple[int, str]]) -> None:
        self._title = title
        self._total = total
        self._state = state

    def __rich__(self) -> Table:
        done, note = self._state()
        line = Table.grid(padding=(0, 2))
        for _ in range(4):
            line.add_column(no_wrap=True)
        bar = ProgressBar(self._total, done, width=24, complete_style="cyan", finished_style="cyan")
        line.add_row(self._title, bar, f"{done:,} of {self._total:,}", note)
        return line
