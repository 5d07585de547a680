"""Ctrl-C, remembered: a ``KeyboardInterrupt`` may get lost in compiled modules, such as numpy.random as it begins."""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["check", "note", "obey"]

_pressed = False


def note(number: int, frame: FrameType | None) -> None:
    """A signal handler that leaves it to :func:`check`."""
    global _pressed
    _pressed = True


def obey(number: int, frame: FrameType | None) -> None:
    """A signal handler that raises ``KeyboardInterrupt`` too, as the usual one does."""
    note(number, frame)
    signal.default_int_handler(number, frame)


def check() -> None:
    """Raise ``KeyboardInterrupt`` if Ctrl-C was ever pressed."""
    if _pressed:
        raise KeyboardInterrupt
