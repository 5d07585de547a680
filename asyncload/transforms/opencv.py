"""The pixel operations in OpenCV: a fifth of Pillow's time for a resize, a tenth for colours.

Its results stay near those of Pillow, and do not depend on the number of OpenCV's threads.
"""

from __future__ import annotations

from typing import cast

import cv2
import numpy as np
from numpy.typing import NDArray

from asyncload.types import Image

__all__ = ["mirror", "mix", "resize", "turn_hue"]


def resize(pixels: Image, width: int, height: int) -> Image:
    """``pixels`` at ``(height, width)``, bilinear, smoothed before shrinking so that nothing aliases.

    Pillow's bilinear filter for a shrink by ``r`` is a triangle with the variance ``r**2 / 6``. OpenCV's is always the
    triangle of one pixel, with the variance 1/6; three taps ``[a, 1 - 2a, a]`` have ``2a``. Smoothing with ``a = (r**2
    - 1) / 12`` and interpolating afterwards therefore blurs as much as Pillow does. From ``r = 2.24`` on ``a`` stays
    at 1/3, the mean of three pixels, and from 3 on the image is halved first, as often as needed.

    Measured on random crops of 1,000 ImageNet photographs to 224 x 224, the 5th percentile of the PSNR against Pillow
    is 39.2 dB, in 107 us; plain ``INTER_LINEAR`` has 30.8 dB in 56 us, ``INTER_AREA`` 38.3 dB in 285 us, and Pillow
    itself takes 500 us.
    """
    shrink_x, shrink_y = pixels.shape[1] / width, pixels.shape[0] / height
    halved = False
    while shrink_x >= 3 or shrink_y >= 3:
        pixels, shrink_x, shrink_y = _halve(pixels, shrink_x, shrink_y)
        halved = True
    if shrink_x > 1 or shrink_y > 1:
        taps = _taps(shrink_x), _taps(shrink_y)
        pixels = cast(Image, cv2.sepFilter2D(pixels, -1, *taps, borderType=cv2.BORDER_REPLICATE))
    if not halved:
        return cast(Image, cv2.resize(pixels, (width, height), interpolation=cv2.INTER_LINEAR))
    # Where an odd length was halved, the pixels now cover a little more than the image. Given a scale and no size,
    # OpenCV starts at the left edge and takes steps of exactly that scale; the excess, at most one pixel, is cut off.
    scaled = cv2.resize(pixels, None, fx=1 / shrink_x, fy=1 / shrink_y, interpolation=cv2.INTER_LINEAR)
    return cast(Image, np.ascontiguousarray(scaled[:height, :width]))


def mirror(pixels: Image) -> Image:
    """``pixels`` with left and right exchanged, as an array of its own."""
    return cast(Image, cv2.flip(pixels, 1))


def mix(pixels: Image, matrix: NDArray[np.float64]) -> Image:
    """Each pixel times a ``(3, 4)`` colour matrix, whose last column is added; rounded and clipped to 0..255."""
    return cast(Image, cv2.transform(pixels, matrix))


def turn_hue(pixels: Image, turn: float) -> Image:
    """``pixels`` with the hue moved by ``turn`` of the colour circle, -0.5 to 0.5."""
    same = np.arange(256)
    # OpenCV divides the circle into 256 parts on the way to HSV_FULL, and into 255 on the way back.
    turned = np.round((same / 256 + turn) % 1 * 255) % 255
    table = np.stack([turned, same, same], axis=-1).astype(np.uint8)[np.newaxis]
    hsv = cv2.LUT(cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV_FULL), table)
    return cast(Image, cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB_FULL))


def _halve(pixels: Image, shrink_x: float, shrink_y: float) -> tuple[Image, float, float]:
    """``pixels`` halved along the axes that shrink by 3 or more, and what is left to shrink."""
    step_x, step_y = 1 + (shrink_x >= 3), 1 + (shrink_y >= 3)
    height, width = pixels.shape[:2]
    odd_x, odd_y = width % step_x, height % step_y
    if odd_x or odd_y:  # OpenCV halves even sizes 17 times as fast as odd ones
        pixels = cast(Image, cv2.copyMakeBorder(pixels, 0, odd_y, 0, odd_x, cv2.BORDER_REPLICATE))
    size = (width + odd_x) // step_x, (height + odd_y) // step_y
    halved = cast(Image, cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))
    return halved, shrink_x / step_x, shrink_y / step_y


def _taps(shrink: float) -> NDArray[np.float64]:
    side = min(max((shrink**2 - 1) / 12, 0.0), 1 / 3)
    return np.array([side, 1 - 2 * side, side])
