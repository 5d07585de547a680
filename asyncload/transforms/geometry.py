"""Cropping, resizing and mirroring, with the names, parameters, rounding and distributions of torchvision.

A transform that begins by taking a part of the image has two steps: ``region`` says which part, from the size of the
image alone, and ``apply`` does the rest with its pixels. A decoder that asks first decodes nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from asyncload.transforms.base import Parametrised, check_pixels, interval, number, size_pair, whole
from asyncload.transforms.engine import engine, resize
from asyncload.types import Image, Region

__all__ = ["CenterCrop", "RandomHorizontalFlip", "RandomResizedCrop", "Resize"]

_INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
_MOST_PIXELS = 178_956_970
"""More than this Pillow refuses to decode. A strip of 1 x 60,000, its shorter side resized to 256, would have 3.9e9."""


class _RegionFirst(Parametrised, ABC):
    """Being called is taking the region of a whole image and applying the rest."""

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        height, width = image.shape[:2]
        region = self.region(width, height, rng)
        rows = slice(region.top, region.top + region.height)
        columns = slice(region.left, region.left + region.width)
        return self.apply(image[rows, columns], region, rng)

    @abstractmethod
    def region(self, width: int, height: int, rng: np.random.Generator) -> Region: ...

    @abstractmethod
    def apply(self, pixels: Image, region: Region, rng: np.random.Generator) -> Image: ...


class RandomResizedCrop(_RegionFirst):
    """A part of random area and shape, resized to ``size``.

    ``size`` is the result's ``(height, width)``, or one ``int`` for both. ``scale`` bounds the part's area as a
    fraction of the image's, ``ratio`` its width divided by its height: the area is uniform, the logarithm of the ratio
    is uniform, the place is uniform. A part that does not fit is drawn again; after ten such draws the largest central
    part with an allowed ratio is taken. These are torchvision's definition and defaults, from the Inception networks
    (Szegedy et al., "Going deeper with convolutions", 2014).

    ``interpolation`` is one of ``"nearest"``, ``"box"``, ``"bilinear"``, ``"hamming"``, ``"bicubic"`` and
    ``"lanczos"``, all without aliasing except the first. Bilinear is the one that is fast with OpenCV.

    Raises ``TypeError`` or ``ValueError`` for an argument that is none of these.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
    ) -> None:
        self.size = size_pair("RandomResizedCrop: size", size)
        self.scale = interval("RandomResizedCrop: scale", scale, 0.0)
        self.ratio = interval("RandomResizedCrop: ratio", ratio, 0.0)
        if self.ratio[0] == 0:
            raise ValueError(f"RandomResizedCrop: ratio: expected numbers above 0, got {ratio!r}")
        self.interpolation = _known("RandomResizedCrop: interpolation", interpolation)

    def region(self, width: int, height: int, rng: np.random.Generator) -> Region:
        """The part to take of an image of this size: the only step that draws from ``rng``."""
        left, top, crop_width, crop_height = self._draw(width, height, rng)
        least_height, least_width = self.size
        return Region(left, top, crop_width, crop_height, min(crop_width, least_width), min(crop_height, least_height))

    def apply(self, pixels: Image, region: Region, rng: np.random.Generator) -> Image:
        """``pixels`` of the part, at any scale, resized to ``size``."""
        height, width = self.size
        return resize(check_pixels("RandomResizedCrop", pixels), width, height, self.interpolation)

    def _draw(self, width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        least, most = self.ratio
        for _ in range(10):
            area = width * height * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(math.log(least), math.log(most)))
            crop_width, crop_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < crop_width <= width and 0 < crop_height <= height:
                top = int(rng.integers(0, height - crop_height + 1))
                left = int(rng.integers(0, width - crop_width + 1))
                return left, top, crop_width, crop_height
        crop_width, crop_height = width, height
        if width / height < least:
            crop_height = max(1, round(width / least))
        elif width / height > most:
            crop_width = max(1, round(height * most))
        return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height


class Resize(_RegionFirst):
    """The whole image, resized.

    An ``int`` as ``size`` is the length of the result's shorter side, and the other keeps the shape of the image; with
    ``max_size`` the longer side has at most this length, and the shorter one becomes as short as that takes. A pair
    ``(height, width)`` is the result's size whatever the shape of the image. ``interpolation`` as in
    :class:`RandomResizedCrop`.

    Raises ``TypeError`` or ``ValueError`` for an argument that is none of these, and ``ValueError`` when called with
    an image so long and thin that the result would have more than 178,956,970 pixels.
    """

    def __init__(self, size: int | Sequence[int], interpolation: str = "bilinear", max_size: int | None = None) -> None:
        self.size = size_pair("Resize: size", size) if isinstance(size, Sequence) else whole("Resize: size", size)
        self.interpolation = _known("Resize: interpolation", interpolation)
        self.max_size = None if max_size is None else whole("Resize: max_size", max_size)
        if self.max_size is not None and (isinstance(self.size, tuple) or self.max_size <= self.size):
            raise ValueError(f"Resize: expected max_size only with an int size below it, got {self!r}")

    def region(self, width: int, height: int, rng: np.random.Generator) -> Region:
        """All of the image, at no less than the result's size."""
        new_width, new_height = self._target(width, height)
        return Region(0, 0, width, height, min(width, new_width), min(height, new_height))

    def apply(self, pixels: Image, region: Region, rng: np.random.Generator) -> Image:
        """``pixels`` of the whole image, at any scale, resized as the image at full size would be."""
        return resize(check_pixels("Resize", pixels), *self._target(region.width, region.height), self.interpolation)

    def _target(self, width: int, height: int) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size[1], self.size[0]
        short, long = self.size, int(self.size * max(width, height) / min(width, height))
        if self.max_size is not None and long > self.max_size:
            short, long = max(1, int(self.max_size * short / long)), self.max_size
        if short * long > _MOST_PIXELS:
            raise ValueError(
                f"{self!r}: expected a result of at most {_MOST_PIXELS} pixels, got {short} x {long} from an image "
                f"of {height} x {width}; give max_size"
            )
        return (short, long) if width <= height else (long, short)


class CenterCrop(_RegionFirst):
    """The central part of ``size``, an ``int`` or ``(height, width)``, with black where the image is smaller.

    Raises ``TypeError`` or ``ValueError`` for a ``size`` that is neither.
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = size_pair("CenterCrop: size", size)

    def region(self, width: int, height: int, rng: np.random.Generator) -> Region:
        """The central part as far as the image has it, at full scale."""
        top, kept_height = _centre(height, self.size[0])
        left, kept_width = _centre(width, self.size[1])
        return Region(left, top, kept_width, kept_height, kept_width, kept_height)

    def apply(self, pixels: Image, region: Region, rng: np.random.Generator) -> Image:
        """``pixels`` of the central part, with black around them if they are fewer than ``size``."""
        height, width = pixels.shape[:2]
        if (height, width) == self.size:
            return np.ascontiguousarray(pixels)
        padded = np.zeros((*self.size, *pixels.shape[2:]), pixels.dtype)
        top, left = (self.size[0] - height) // 2, (self.size[1] - width) // 2
        padded[top : top + height, left : left + width] = pixels
        return padded


class RandomHorizontalFlip(Parametrised):
    """Left and right exchanged, with probability ``p``.

    Raises ``TypeError`` or ``ValueError`` unless ``p`` is a number from 0 to 1.
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = number("RandomHorizontalFlip: p", p, 0.0, 1.0)

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        return engine.mirror(image) if rng.random() < self.p else image


def _centre(length: int, wanted: int) -> tuple[int, int]:
    """Where the middle ``wanted`` of ``length`` begins, and how much of it there is."""
    return (round((length - wanted) / 2), wanted) if length > wanted else (0, length)


def _known(where: str, interpolation: str) -> str:
    if interpolation not in _INTERPOLATIONS:
        raise ValueError(f"{where}: expected one of {', '.join(_INTERPOLATIONS)}, got {interpolation!r}")
    return interpolation
