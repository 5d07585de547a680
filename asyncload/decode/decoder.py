"""The decoder: bytes in, upright RGB pixels out, or a :class:`DecodeError` that says why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Protocol

import numpy as np
import PIL
from PIL import features

from asyncload.decode.faults import as_decode_error
from asyncload.decode.geometry import stored_region, swaps_sides, upright
from asyncload.decode.jpeg import Backend, JpegFile, PillowJpeg, Scratch, SimpleJpeg
from asyncload.decode.pillow import PillowFile
from asyncload.decode.settings import Decode
from asyncload.decode.sniff import sniff
from asyncload.decode.turbojpeg import TurboJpeg
from asyncload.errors import DecodeError
from asyncload.types import Image, Region

__all__ = ["Codecs", "Decoder", "codecs"]


@dataclass(frozen=True, slots=True)
class Codecs:
    """Which codecs are in use here.

    ``jpeg`` and ``jpeg_version`` name the one that decodes JPEG, ``turbojpeg`` says where TurboJPEG was found or why it
    is not in use. ``pillow`` is the version of Pillow, ``webp`` whether it can decode WebP.
    """

    jpeg: str
    jpeg_version: str
    turbojpeg: str
    pillow: str
    webp: bool


def codecs() -> Codecs:
    """The codecs that a new :class:`Decoder` uses."""
    backend, turbojpeg = _best_backend()
    return Codecs(backend.name, backend.version, turbojpeg, PIL.__version__, bool(features.check("webp")))


def _best_backend() -> tuple[Backend, str]:
    try:
        turbojpeg = TurboJpeg()
    except OSError as error:
        why = str(error)
    else:
        return turbojpeg, turbojpeg.where
    try:
        return SimpleJpeg(), why
    except ImportError:
        return PillowJpeg(), why


class _Picture(Protocol):
    width: int
    height: int
    orientation: int

    def read(self, region: Region | None) -> Image: ...


class Decoder:
    """Decodes JPEG, PNG, WebP, GIF (the first frame), BMP and, where ``settings`` allow it, TIFF.

    ``backend`` is the JPEG codec; by default the best there is: TurboJPEG 3, simplejpeg, Pillow.

    One decoder serves one thread at a time, because its pictures share one piece of memory: the next call writes over
    what the last one returned. With ``reuse=False`` every picture has memory of its own.
    """

    def __init__(self, settings: Decode | None = None, *, backend: Backend | None = None, reuse: bool = True) -> None:
        self._settings = settings or Decode()
        self._backend = _best_backend()[0] if backend is None else backend
        self._scratch = Scratch(reuse=reuse)

    def decode(
        self,
        data: bytes | bytearray | memoryview,
        choose: Callable[[int, int], Region] | None = None,
    ) -> Image:
        """The image, or the part of it that ``choose`` asks for, as ``uint8`` ``(H, W, 3)``: RGB, upright.

        ``choose(width, height)`` is called once, with the size of the upright image and before any pixel is decoded; it
        returns the region to deliver, which has to lie inside the image.

        The image is writable, and valid until the next call (with ``reuse=False``, for good). It is C-contiguous, or
        a part of a larger array that is.

        Transparent pixels are laid over white; of 16 bits a sample the upper 8 are kept; 32-bit integers and floats
        (TIFF) are stretched from their own least to their own greatest value.

        Raises :class:`DecodeError` (its docstring has the reasons) for whatever is wrong with ``data``, what
        ``choose`` raises unchanged, and ``TypeError`` or ``ValueError`` for a region that is none.
        """
        view = memoryview(data).cast("B")
        name = sniff(view, tiff=self._settings.tiff)
        try:
            picture = self._open(view, name)
        except DecodeError:
            raise
        except Exception as error:
            raise as_decode_error(error, name) from error
        orientation = picture.orientation
        region = None
        if choose is not None:
            width, height = picture.width, picture.height
            if swaps_sides(orientation):
                width, height = height, width
            region = _inside(choose(width, height), width, height)
            region = stored_region(region, orientation, width, height)
        try:
            pixels = picture.read(region)
            return pixels if orientation == 1 else np.ascontiguousarray(upright(pixels, orientation))
        except DecodeError:
            raise
        except Exception as error:
            raise as_decode_error(error, name) from error

    def _open(self, data: memoryview, name: str) -> _Picture:
        if name == "JPEG":
            return JpegFile(data, self._settings, self._backend, self._scratch)
        return PillowFile(data, name, self._settings)


def _inside(region: Region, width: int, height: int) -> Region:
    try:
        left, top, wide, high = map(index, region[:4])
    except TypeError:
        raise TypeError(f"choose({width}, {height}): expected a Region of integers, got {region}") from None
    if left < 0 or top < 0 or wide < 1 or high < 1 or left + wide > width or top + high > height:
        raise ValueError(f"choose({width}, {height}): expected a region inside the image, got {region}")
    return region
