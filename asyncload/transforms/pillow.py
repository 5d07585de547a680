"""The pixel operations in Pillow and numpy: always there, and the reference for the results of every other engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from asyncload.types import Image

__all__ = ["mirror", "mix", "resize", "turn_hue"]


def resize(pixels: Image, width: int, height: int, interpolation: str = "bilinear") -> Image:
    """``pixels`` at ``(height, width)``. When shrinking, Pillow widens its filters, so nothing aliases."""
    resampling = PillowImage.Resampling[interpolation.upper()]
    return _array(PillowImage.fromarray(pixels).resize((width, height), resampling))


def mirror(pixels: Image) -> Image:
    """``pixels`` with left and right exchanged, as an array of its own."""
    mirrored = np.empty_like(pixels, order="C")
    for channel in range(3):  # a quarter of the time of copying pixels[:, ::-1], whose inner loop is three long
        mirrored[:, :, channel] = pixels[:, ::-1, channel]
    return mirrored


def mix(pixels: Image, matrix: NDArray[np.float64]) -> Image:
    """Each pixel times a ``(3, 4)`` colour matrix, whose last column is added; rounded and clipped to 0..255."""
    return _array(PillowImage.fromarray(pixels).convert("RGB", tuple(matrix.ravel().tolist())))


def turn_hue(pixels: Image, turn: float) -> Image:
    """``pixels`` with the hue moved by ``turn`` of the colour circle, -0.5 to 0.5."""
    # Pillow divides the circle into 255 parts and truncates a hue, which takes half a part from it on average.
    table = [round(hue + 0.5 + turn * 255) % 255 for hue in range(256)] + 2 * list(range(256))
    return _array(PillowImage.fromarray(pixels).convert("HSV").point(table).convert("RGB"))


def _array(image: PillowImage.Image) -> Image:
    return np.array(image)  # and not asarray, whose result cannot be written to
