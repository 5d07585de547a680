"""Putting transforms together: in a row, in the usual recipes for ImageNet, and with those of other libraries."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np

from asyncload.transforms.base import size_pair, whole
from asyncload.transforms.geometry import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize
from asyncload.types import Image, Region, RegionTransform, Transform

__all__ = ["Compose", "imagenet_eval", "imagenet_train", "wrap"]


class Compose:
    """Transforms applied one after another, all drawing from the same generator.

    If the first of them begins by taking a region, so does the whole, and only that region is decoded.

    Raises ``TypeError`` if ``transforms`` is not a sequence of callables.
    """

    def __new__(cls, transforms: Sequence[Transform]) -> Compose:
        if not isinstance(transforms, Sequence) or not all(map(callable, transforms)):
            raise TypeError(f"Compose: transforms: expected a list of callables (image, rng), got {transforms!r}")
        region_first = cls is Compose and len(transforms) > 0 and isinstance(transforms[0], RegionTransform)
        return super().__new__(_RegionCompose if region_first else cls)

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = tuple(transforms)

    def __call__(self, image: Image, rng: np.random.Generator) -> Any:
        result: Any = image
        for transform in self.transforms:
            result = transform(result, rng)
        return result

    def __repr__(self) -> str:
        return f"Compose([{', '.join(map(repr, self.transforms))}])"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.transforms,)


class _RegionCompose(Compose):
    """What ``Compose`` builds when its first transform is a :class:`~asyncload.types.RegionTransform`."""

    def region(self, width: int, height: int, rng: np.random.Generator) -> Region:
        first: Any = self.transforms[0]
        region: Region = first.region(width, height, rng)
        return region

    def apply(self, pixels: Image, region: Region, rng: np.random.Generator) -> Any:
        first: Any = self.transforms[0]
        result = first.apply(pixels, region, rng)
        for transform in self.transforms[1:]:
            result = transform(result, rng)
        return result


def imagenet_train(size: int | Sequence[int] = 224) -> Compose:
    """``RandomResizedCrop(size)`` and ``RandomHorizontalFlip()``: the usual augmentation for training on ImageNet.

    The result is ``uint8`` ``(size, size, 3)``, C-contiguous.
    """
    return Compose([RandomResizedCrop(size_pair("imagenet_train: size", size)), RandomHorizontalFlip()])


def imagenet_eval(size: int = 224, resize: int | None = None) -> Compose:
    """``Resize(resize)`` and ``CenterCrop(size)``: the usual preparation for validation on ImageNet.

    ``resize``, the shorter side before cropping, is by default ``size * 256 / 224``, rounded. The result is ``uint8``
    ``(size, size, 3)``, C-contiguous.
    """
    size = whole("imagenet_eval: size", size)
    shorter = round(size * 256 / 224) if resize is None else whole("imagenet_eval: resize", resize)
    return Compose([Resize(shorter), CenterCrop(size)])


def wrap(fn: Callable[[Any], Any]) -> Transform:
    """A transform that calls ``fn(image)``, for functions of one argument, such as other libraries' transforms.

    ``fn`` receives a C-contiguous array. What it draws from the global generators of ``random``, ``numpy.random`` and,
    if it has been imported, torch (on the CPU) depends on the sample alone: they are seeded from ``rng`` before the
    call and have their own state back after it, for about 70 us a call. They are global, hence one wrapped call at a
    time in each process: with ``executor="thread"`` the calls take turns, and another thread that draws from these
    generators meanwhile gets in the way. A library with generators of its own (albumentations 2, say) is not reached;
    write a function of ``(image, rng)`` that passes ``rng`` on, which also avoids the cost.

    Raises ``TypeError`` if ``fn`` cannot be called.
    """
    if not callable(fn):
        raise TypeError(f"wrap: expected a callable of one argument, got {fn!r}")
    return _Wrapped(fn)


class _Wrapped:
    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = fn

    def __call__(self, image: Image, rng: np.random.Generator) -> Any:
        with _global_generators_seeded(int(rng.integers(2**32))):
            return self.fn(np.ascontiguousarray(image))

    def __repr__(self) -> str:
        return f"wrap({self.fn!r})"


_global_generators = RLock()  # a wrapped function may call another


@contextmanager
def _global_generators_seeded(seed: int) -> Iterator[None]:
    # The generator itself: torch.manual_seed would seed the GPUs' as well, and takes 75 us in place of 1.
    torch_generator = getattr(sys.modules.get("torch"), "default_generator", None)
    with _global_generators:
        python_state, numpy_state = random.getstate(), np.random.get_state()
        torch_state = torch_generator.get_state() if torch_generator else None
        random.seed(seed)
        np.random.seed(seed)
        if torch_generator:
            torch_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
            if torch_generator:
                torch_generator.set_state(torch_state)
