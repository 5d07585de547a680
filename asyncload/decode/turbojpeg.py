"""TurboJPEG 3 by ctypes: the decompressing part of its C interface.

https://github.com/libjpeg-turbo/libjpeg-turbo/blob/main/src/turbojpeg.h describes the functions and constants.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from asyncload.decode.geometry import Part
from asyncload.decode.libjpeg import is_warning
from asyncload.types import Image

__all__ = ["TurboJpeg", "TurboJpegError", "library_names"]

_TJINIT_DECOMPRESS = 1
_TJPARAM_JPEGWIDTH = 5
_TJPARAM_JPEGHEIGHT = 6
_TJPF_RGB = 0


class _Region(ctypes.Structure):
    _fields_ = (("x", c_int), ("y", c_int), ("w", c_int), ("h", c_int))


_SONAMES = ("libturbojpeg.so.0", "libturbojpeg.so", "libturbojpeg.0.dylib", "libturbojpeg.dylib", "turbojpeg.dll")
_FOLDERS = (  # of libjpeg-turbo's own packages and of Homebrew; the loader does not look there by itself
    "/opt/libjpeg-turbo/lib64",
    "/opt/libjpeg-turbo/lib",
    "/opt/homebrew/opt/jpeg-turbo/lib",
    "/usr/local/opt/jpeg-turbo/lib",
)


class TurboJpegError(Exception):
    """TurboJPEG could not decode it; the text is its own."""


def library_names() -> Iterator[str]:
    """Where a libturbojpeg may be: the system's, then the one inside the wheel ``turbojpeg``.

    The system's are named for the loader to find, since ``ctypes.util.find_library`` would start a compiler for it.
    """
    yield from _SONAMES
    for folder in _FOLDERS:
        yield from map(str, sorted(Path(folder).glob("libturbojpeg.[sd]*")))
    wheel = find_spec("turbojpeg")  # finds the extension module without importing it
    if wheel is not None and wheel.origin is not None:
        yield from map(str, sorted(Path(wheel.origin).parent.glob("turbojpeg.*libs/*turbojpeg*")))


class TurboJpeg:
    """The first TurboJPEG of version 3 among ``names``, files or names for the loader to find.

    Threads may share it: a handle is made for each picture (0.6 us), because tables that a file lacks would be
    taken from the file before it.

    Raises ``OSError``, which says what was tried, where there is none.
    """

    name = "TurboJPEG"
    decodes_parts = True

    def __init__(self, names: Iterable[str] | None = None) -> None:
        library, self.where = _load(library_names() if names is None else names)
        self._init = library.tj3Init
        self._init.argtypes, self._init.restype = (c_int,), c_void_p
        self._destroy = library.tj3Destroy
        self._destroy.argtypes, self._destroy.restype = (c_void_p,), None
        self._get = library.tj3Get
        self._get.argtypes, self._get.restype = (c_void_p, c_int), c_int
        self._error = library.tj3GetErrorStr
        self._error.argtypes, self._error.restype = (c_void_p,), c_char_p
        self._read_header = library.tj3DecompressHeader
        self._read_header.argtypes, self._read_header.restype = (c_void_p, c_void_p, c_size_t), c_int
        self._decompress = library.tj3Decompress8
        self._decompress.argtypes = (c_void_p, c_void_p, c_size_t, c_void_p, c_int, c_int)
        self._decompress.restype = c_int
        self._set_cropping = library.tj3SetCroppingRegion
        self._set_cropping.argtypes, self._set_cropping.restype = (c_void_p, _Region), c_int
        # No function tells the version, but the functions that are there do.
        self.version = "3.1 or later" if hasattr(library, "tj3SetICCProfile") else "3.0"

    def decode(self, data: memoryview, pixels: Image, part: Part | None = None) -> str:
        """Decode a picture, or ``part`` of it, into ``pixels``, C-contiguous ``(H, W, 3)``.

        Returns the first warning, or ``""``. Raises :class:`TurboJpegError`.
        """
        source = np.frombuffer(data, np.uint8)
        address, size = source.ctypes.data, source.size
        height, width, _ = pixels.shape
        handle = self._init(_TJINIT_DECOMPRESS)
        if not handle:
            raise MemoryError("tj3Init: no memory for a handle")
        try:
            if self._read_header(handle, address, size):
                self._warning(handle)
            got = self._get(handle, _TJPARAM_JPEGWIDTH), self._get(handle, _TJPARAM_JPEGHEIGHT)
            expected = (width, height) if part is None else (part.of_width, part.of_height)
            if got != expected:  # it writes as many rows as it finds, whatever room there is
                raise TurboJpegError(f"expected {expected[0]}x{expected[1]} pixels from the frame header, got {got}")
            if part is not None and self._set_cropping(handle, _Region(part.left, part.top, width, height)):
                raise TurboJpegError(self._error(handle).decode("ascii", "replace"))
            if self._decompress(handle, address, size, pixels.ctypes.data, width * 3, _TJPF_RGB):
                return self._warning(handle)
            return ""
        finally:
            self._destroy(handle)

    def _warning(self, handle: int) -> str:
        text: str = self._error(handle).decode("ascii", "replace")
        if not is_warning(text):
            raise TurboJpegError(text)
        return text


def _load(names: Iterable[str]) -> tuple[ctypes.CDLL, str]:
    too_old = []
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, "tj3Decompress8"):
            return library, name
        too_old.append(name)
    why = f"{', '.join(too_old)} is older than version 3" if too_old else "no libturbojpeg was found"
    raise OSError(f"{why}; pip install turbojpeg brings one")
