"""Who computes the pixels: OpenCV where it is installed (the ``fast`` extra), else Pillow.

The two agree to within what the tests state, not to the bit: to repeat a run exactly, repeat it with the same one.
OpenCV's threads are left to the application, which a decode worker is, and a library is not.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asyncload.transforms import pillow
from asyncload.types import Image

__all__ = ["Engine", "engine", "resize"]


class Engine(Protocol):
    """What the modules :mod:`asyncload.transforms.opencv` and :mod:`asyncload.transforms.pillow` both offer."""

    def resize(self, pixels: Image, width: int, height: int) -> Image: ...

    def mirror(self, pixels: Image) -> Image: ...

    def mix(self, pixels: Image, matrix: NDArray[np.float64]) -> Image: ...

    def turn_hue(self, pixels: Image, turn: float) -> Image: ...


engine: Engine = pillow
try:
    from asyncload.transforms import opencv
except ImportError:
    pass
else:
    engine = opencv


def resize(pixels: Image, width: int, height: int, interpolation: str) -> Image:
    """``pixels`` at ``(height, width)``, C-contiguous. Only bilinear is known to every engine; the rest is Pillow's."""
    if pixels.shape[:2] == (height, width):
        return np.ascontiguousarray(pixels)
    if interpolation == "bilinear":
        return engine.resize(pixels, width, height)
    return pillow.resize(pixels, width, height, interpolation)
