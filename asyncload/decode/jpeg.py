"""JPEG: three codecs behind one interface, and what is done when one of them is not content.

All three use libjpeg-turbo's accurate integer DCT and its triangle-filter ("fancy") upsampling, so they give the same
pixels: on 1,000 photographs of ImageNet the greatest difference between any two was 0. Another build of libjpeg may
differ by 1 in places, and where a progressive file lacks scans, versions differ in how they smooth what there is.
"""

from __future__ import annotations

from types import ModuleType
from typing import Protocol

import numpy as np
import PIL

from asyncload.decode.faults import as_decode_error
from asyncload.decode.geometry import Part, crop, part_around
from asyncload.decode.jpegheader import read_header
from asyncload.decode.libjpeg import is_warning, leaves_image_whole, loses_pixels
from asyncload.decode.limits import check_scans, check_size
from asyncload.decode.pillow import read_jpeg
from asyncload.decode.settings import Decode
from asyncload.errors import DecodeError
from asyncload.types import Image, Region

__all__ = ["Backend", "JpegFile", "PillowJpeg", "Scratch", "SimpleJpeg"]

_KEPT_BYTES = 64 << 20  # 22 megapixels; what a larger photograph needs is given back after it
_CMYK = 4

_PART_SHARE = 0.9  # a larger part is not decoded alone: what it leaves out would not be worth it
_EOI = b"\xff\xd9"
_TAIL_BYTES = 1024  # where the end is looked for; some cameras write a little behind it


class Backend(Protocol):
    """A JPEG codec. Threads may share it."""

    name: str
    version: str
    decodes_parts: bool

    def decode(self, data: memoryview, pixels: Image, part: Part | None = None, /) -> str:
        """Decode a grey or colour JPEG into ``pixels``, C-contiguous ``(H, W, 3)`` of the size in its header.

        A backend that ``decodes_parts`` may be asked for ``part`` of the picture, and ``pixels`` are then of that size.

        Returns libjpeg's first warning, or ``""``. Raises anything if ``pixels`` could not be filled.
        """
        ...


class SimpleJpeg:
    """The package simplejpeg, which carries a libjpeg-turbo. Raises ``ImportError`` where it is not installed."""

    name = "simplejpeg"
    decodes_parts = False

    def __init__(self) -> None:
        import simplejpeg  # the workers that have TurboJPEG do without it

        self._module: ModuleType = simplejpeg
        self.version: str = simplejpeg.__version__

    def decode(self, data: memoryview, pixels: Image, part: Part | None = None, /) -> str:
        try:
            decoded = self._module.decode_jpeg(data, buffer=pixels)
        except ValueError as error:
            warning = str(error)
            if not is_warning(warning):
                raise
            # It decodes on after a warning about the pixels, but not after one about the header.
            self._module.decode_jpeg_header(data)
            return warning
        if decoded.shape != pixels.shape:
            raise ValueError(f"expected {pixels.shape} from the frame header, got {decoded.shape}")
        return ""


class PillowJpeg:
    """Pillow, which gives no warnings: it refuses what ends early, and decodes nonsense into nonsense."""

    name = "Pillow"
    version = PIL.__version__
    decodes_parts = False

    def decode(self, data: memoryview, pixels: Image, part: Part | None = None, /) -> str:
        np.copyto(pixels, read_jpeg(data, tolerate=False))
        return ""


class Scratch:
    """One piece of memory that every picture is decoded into, unless ``reuse`` is false.

    Fresh memory costs 6 % of the time of a decode from about 12 megapixels on; below that, malloc reuses its own.
    """

    def __init__(self, *, reuse: bool) -> None:
        self._memory = np.empty(0, np.uint8)
        self._kept_bytes = _KEPT_BYTES if reuse else 0

    def pixels(self, height: int, width: int) -> Image:
        """Uninitialised ``(height, width, 3)``, valid until the next call."""
        size = height * width * 3
        memory = self._memory
        if size > memory.size:
            memory = np.empty(size, np.uint8)
            if size <= self._kept_bytes:
                self._memory = memory
        return memory[:size].reshape(height, width, 3)


class JpegFile:
    """A JPEG of which the header has been read.

    ``width`` and ``height`` are those of the stored picture, ``orientation`` (1 to 8) says how to turn it.
    """

    def __init__(self, data: memoryview, settings: Decode, backend: Backend, scratch: Scratch) -> None:
        header = read_header(data)
        self.width, self.height, self.orientation = header.width, header.height, header.orientation
        check_size("JPEG", self.width, self.height, settings)
        if header.many_scans:
            check_scans(data, header.scan, settings)
        self._mcu_width = header.mcu_width
        self._data = data
        self._tolerate = settings.tolerate_truncated
        self._backend: Backend | None = None if header.components == _CMYK else backend
        self._scratch = scratch

    def read(self, region: Region | None) -> Image:
        """The stored picture, or ``region`` of it."""
        if region is None:
            return self._pixels()
        pixels = self._part(region)
        return crop(self._pixels(), region) if pixels is None else pixels

    def _part(self, region: Region) -> Image | None:
        """``region``, and as little more as possible; ``None`` where that is not worth it, or not safe."""
        if self._backend is None or not self._backend.decodes_parts:
            return None
        part = part_around(region, self.width, self.height, self._mcu_width)
        if part.width * part.height > _PART_SHARE * self.width * self.height:
            return None
        # Below the region nothing is looked at. A file that was cut off there has no end, for a scan contains none.
        if _EOI not in bytes(self._data[-_TAIL_BYTES:]):
            return None
        pixels = self._scratch.pixels(part.height, part.width)
        try:
            warning = self._backend.decode(self._data, pixels, part)
        except Exception:
            return None  # whatever is odd about it, the whole picture will tell what, whichever the region is
        moved = region._replace(left=region.left - part.left, top=region.top - part.top)
        return None if warning else crop(pixels, moved)

    def _pixels(self) -> Image:
        if self._backend is None:  # CMYK and YCCK
            return self._by_pillow()
        pixels = self._scratch.pixels(self.height, self.width)
        try:
            warning = self._backend.decode(self._data, pixels)
        except Exception as error:
            return self._after(error)
        if not warning or self._tolerate or leaves_image_whole(warning):
            return pixels
        if loses_pixels(warning):
            reason = "truncated" if "premature end" in warning else "corrupt"
            raise DecodeError(f"JPEG: {warning}", reason=reason)
        return self._by_pillow()  # the warning may hide that pixels are missing, which Pillow would refuse

    def _after(self, error: Exception) -> Image:
        """What Pillow makes of it, or else the better of two errors."""
        try:
            return self._by_pillow()
        except Exception as pillows:
            ends_early = as_decode_error(pillows, "JPEG")
            if ends_early.reason == "truncated":  # the others take the end of the data for a strange marker
                raise ends_early from pillows
            raise error from None

    def _by_pillow(self) -> Image:
        pixels = read_jpeg(self._data, tolerate=self._tolerate)
        if pixels.shape != (self.height, self.width, 3):
            raise DecodeError("JPEG: two frame headers that differ", reason="corrupt")
        return pixels
