"""What the transforms have in common: arguments are checked when a transform is built, and its repr shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncload.types import Image

__all__ = ["Parametrised", "check_pixels", "interval", "number", "size_pair", "three", "whole"]


class Parametrised:
    """A transform whose attributes are the arguments that it was built with, and whose repr builds it again."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def check_pixels(where: str, image: NDArray[Any]) -> Image:
    """``image``, once it is known to be ``uint8`` ``(H, W, 3)``."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise TypeError(
            f"{where}: expected a uint8 image (H, W, 3), got {image.dtype} {image.shape}; "
            "ToFloat and Normalize come after the transforms that work on uint8"
        )
    return image


def whole(where: str, value: object) -> int:
    """``value`` as an ``int`` of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{where}: expected an int, got {value!r}")
    if value < 1:
        raise ValueError(f"{where}: expected at least 1 pixel, got {value}")
    return int(value)


def size_pair(where: str, size: int | Sequence[int]) -> tuple[int, int]:
    """``size`` as ``(height, width)``; a single number stands for both."""
    if not isinstance(size, Sequence):
        return whole(where, size), whole(where, size)
    if len(size) != 2:
        raise ValueError(f"{where}: expected an int or (height, width), got {size!r}")
    return whole(where, size[0]), whole(where, size[1])


def number(where: str, value: object, low: float, high: float = math.inf) -> float:
    """``value`` as a finite ``float`` from ``low`` to ``high``, both allowed."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{where}: expected a number, got {value!r}")
    if not (low <= value <= high and math.isfinite(value)):
        raise ValueError(f"{where}: expected a finite number from {low} to {high}, got {value!r}")
    return float(value)


def interval(where: str, pair: Sequence[float], low: float, high: float = math.inf) -> tuple[float, float]:
    """``pair`` as ``(least, most)``, both from ``low`` to ``high``."""
    if not isinstance(pair, Sequence) or isinstance(pair, str):
        raise TypeError(f"{where}: expected a pair (least, most), got {pair!r}")
    if len(pair) != 2 or pair[0] > pair[1]:
        raise ValueError(f"{where}: expected a pair (least, most) with least <= most, got {pair!r}")
    return number(where, pair[0], low, high), number(where, pair[1], low, high)


def three(where: str, values: Sequence[float] | NDArray[Any]) -> tuple[float, float, float]:
    """``values`` as three finite floats, one for each of red, green and blue."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise ValueError(f"{where}: expected three finite numbers, got {values!r}")
    red, green, blue = array.tolist()
    return red, green, blue
