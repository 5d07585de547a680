"""Changing colours, and the step from ``uint8`` to the floats that a network is given.

A ``uint8`` image counts from 0 to 255; a float image, which :class:`ToFloat` makes, from 0 to 1. All images here have
the shape ``(H, W, 3)``, before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncload.transforms.base import Parametrised, check_pixels, interval, number, three
from asyncload.transforms.engine import engine
from asyncload.types import Image

__all__ = ["ColorJitter", "Lighting", "Normalize", "ToFloat"]

_LUMA = np.array([0.299, 0.587, 0.114])
"""The grey of a colour, by ITU-R BT.601: what torchvision and Pillow use."""


class ColorJitter(Parametrised):
    """Brightness, contrast, saturation and hue changed by random factors, in a random order.

    A number ``x`` as ``brightness``, ``contrast`` or ``saturation`` means a factor drawn uniformly from ``max(0, 1 -
    x)`` to ``1 + x``, a pair ``(least, most)`` one from between them; 0 (the default) changes nothing. Brightness
    multiplies; contrast and saturation move each pixel from the image's mean grey, and from its own grey, by the
    factor. ``hue`` turns the colour circle by a part of it drawn from ``-x`` to ``x``, or from a pair, within -0.5 and
    0.5. As in torchvision, with rounded results where torchvision truncates.

    Raises ``TypeError`` or ``ValueError`` for an argument that is none of these.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        self.brightness = _factors("ColorJitter: brightness", brightness)
        self.contrast = _factors("ColorJitter: contrast", contrast)
        self.saturation = _factors("ColorJitter: saturation", saturation)
        if isinstance(hue, Sequence):
            self.hue = interval("ColorJitter: hue", hue, -0.5, 0.5)
        else:
            most = number("ColorJitter: hue", hue, 0.0, 0.5)
            self.hue = (-most, most)

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        image = check_pixels("ColorJitter", image)
        # All are drawn whether used or not, so that the others stay as they are when one is switched off.
        order = rng.permutation(4)
        bounds = (self.brightness, self.contrast, self.saturation, self.hue)
        factors = [rng.uniform(least, most) for least, most in bounds]
        for step in order:
            if factors[step] != _UNCHANGED[step]:
                image = _STEPS[step](image, factors[step])
        return image


class Lighting(Parametrised):
    """The same random colour added to all pixels, along the principal components of ImageNet's colours.

    The colour is ``eigvec @ (alpha * eigval)``, with three ``alpha`` from a normal distribution of mean 0 and standard
    deviation ``alphastd``. The rows of ``eigvec`` are red, green and blue, its columns the components; ``eigval``
    belongs to images from 0 to 1, and the colour is multiplied by 255 for a ``uint8`` image, whose result is rounded
    and clipped. So pass ``eigval`` as fb.resnet.torch has it, and not times 255 as for tensorpack.

    Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012; the defaults are those
    of fb.resnet.torch.

    Raises ``TypeError`` or ``ValueError`` for a negative ``alphastd`` or arrays of other shapes.
    """

    def __init__(
        self,
        alphastd: float = 0.1,
        eigval: Sequence[float] | NDArray[Any] = (0.2175, 0.0188, 0.0045),
        eigvec: Sequence[Sequence[float]] | NDArray[Any] = (
            (-0.5675, 0.7192, 0.4009),
            (-0.5808, -0.0045, -0.8140),
            (-0.5836, -0.6948, 0.4203),
        ),
    ) -> None:
        self.alphastd = number("Lighting: alphastd", alphastd, 0.0)
        self.eigval = three("Lighting: eigval", eigval)
        if len(eigvec) != 3:
            raise ValueError(f"Lighting: eigvec: expected three rows, got {eigvec!r}")
        self.eigvec = tuple(three("Lighting: eigvec", row) for row in eigvec)

    def __call__(self, image: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        colour = np.array(self.eigvec) @ (rng.normal(0.0, self.alphastd, 3) * self.eigval)
        if _largest("Lighting", image) == 1.0:
            lit: NDArray[Any] = image + colour.astype(image.dtype)
            return lit
        return engine.mix(image, np.column_stack([np.eye(3), 255.0 * colour]))


class Normalize(Parametrised):
    """``(image - mean) / std`` for each channel, as ``float32``, where the image counts from 0 to 1.

    A ``uint8`` image is divided by 255 first, so that ``Normalize()`` alone does what torchvision's ``ToTensor`` and
    ``Normalize`` do, and does it faster than ``ToFloat()`` and ``Normalize()``. The defaults are ImageNet's.

    Raises ``ValueError`` unless ``mean`` and ``std`` are three numbers each, those of ``std`` above 0.
    """

    def __init__(
        self,
        mean: Sequence[float] | NDArray[Any] = (0.485, 0.456, 0.406),
        std: Sequence[float] | NDArray[Any] = (0.229, 0.224, 0.225),
    ) -> None:
        self.mean = three("Normalize: mean", mean)
        self.std = three("Normalize: std", std)
        if min(self.std) <= 0:
            raise ValueError(f"Normalize: std: expected numbers above 0, got {std!r}")

    def __call__(self, image: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float32]:
        largest = _largest("Normalize", image)
        height, width = image.shape[:2]
        # A row at a time is three times as fast as a pixel at a time.
        mean = np.tile(np.multiply(self.mean, largest, dtype=np.float32), width)
        scale = np.tile(np.divide(1.0, np.multiply(self.std, largest), dtype=np.float32), width)
        normalized: NDArray[np.float32] = np.subtract(image.reshape(height, -1), mean, dtype=np.float32)
        normalized *= scale
        return normalized.reshape(image.shape)


class ToFloat(Parametrised):
    """A ``uint8`` image as ``float32`` from 0 to 1; the channels stay last. Raises ``TypeError`` for other images."""

    def __call__(self, image: Image, rng: np.random.Generator) -> NDArray[np.float32]:
        return np.divide(check_pixels("ToFloat", image), 255, dtype=np.float32)


def _factors(where: str, value: float | Sequence[float]) -> tuple[float, float]:
    if isinstance(value, Sequence):
        return interval(where, value, 0.0)
    most = number(where, value, 0.0)
    return max(0.0, 1.0 - most), 1.0 + most


def _largest(where: str, image: NDArray[Any]) -> float:
    """What white is in ``image``: 1 in a float image, else 255."""
    if image.ndim == 3 and image.shape[2] == 3 and np.issubdtype(image.dtype, np.floating):
        return 1.0
    check_pixels(where, image)
    return 255.0


def _brightness(pixels: Image, factor: float) -> Image:
    return _blend(pixels, factor, np.zeros((3, 4)))


def _contrast(pixels: Image, factor: float) -> Image:
    # Down the columns first: 20 times as fast as pixels.mean(axis=(0, 1)).
    mean = pixels.sum(axis=0, dtype=np.uint32).mean(axis=0) / pixels.shape[0] @ _LUMA
    return _blend(pixels, factor, np.column_stack([np.zeros((3, 3)), np.full(3, mean)]))


def _saturation(pixels: Image, factor: float) -> Image:
    return _blend(pixels, factor, np.column_stack([np.tile(_LUMA, (3, 1)), np.zeros(3)]))


def _blend(pixels: Image, factor: float, other: NDArray[np.float64]) -> Image:
    """``pixels * factor + other * (1 - factor)``, ``other`` being the matrix that makes it of ``pixels``."""
    return engine.mix(pixels, factor * np.eye(3, 4) + (1.0 - factor) * other)


def _hue(pixels: Image, turn: float) -> Image:
    return engine.turn_hue(pixels, turn)


_STEPS = (_brightness, _contrast, _saturation, _hue)
_UNCHANGED = (1.0, 1.0, 1.0, 0.0)
