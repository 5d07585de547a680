"""Everything that Pillow decodes: each format but JPEG, and the JPEGs that the faster codecs leave to it."""

from __future__ import annotations

import zlib
from io import BytesIO
from struct import unpack_from

import numpy as np
from PIL import Image as PillowImage
from PIL import features
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from asyncload.decode import exif
from asyncload.decode.geometry import crop
from asyncload.decode.jpegheader import without_metadata
from asyncload.decode.limits import check_size
from asyncload.decode.settings import Decode
from asyncload.errors import DecodeError
from asyncload.types import Image, Region

__all__ = ["PillowFile", "read_jpeg"]

_DHT, _EOI, _SOS = b"\xff\xc4", b"\xff\xd9", b"\xff\xda"

# The classes rather than PIL.Image.open: exactly one format can be tried, and its warning about 89 million pixels,
# which is not ours to switch off in the user's process, is not given below our own limit.
_CLASSES: dict[str, type[ImageFile]] = {
    "BMP": BmpImageFile,
    "GIF": GifImageFile,
    "PNG": PngImageFile,
    "TIFF": TiffImageFile,
    "WebP": WebPImageFile,
}


class PillowFile:
    """A PNG, WebP, GIF, BMP or TIFF of which the header has been read.

    ``width`` and ``height`` are those of the stored picture, ``orientation`` (1 to 8) says how to turn it.
    """

    def __init__(self, data: memoryview, name: str, settings: Decode) -> None:
        metadata = xmp = b""
        if name == "WebP":
            check_size(name, *_webp_size(data), settings)  # opening allocates the canvas already
        elif name == "PNG":
            metadata = _png_exif(data, check=not settings.tolerate_truncated)
        self._file = _CLASSES[name](BytesIO(data))
        self._tolerate = settings.tolerate_truncated
        self.width, self.height = self._file.size
        check_size(name, self.width, self.height, settings)
        if name == "WebP":
            metadata, xmp = self._file.info.get("exif", b""), self._file.info.get("xmp", b"")
        self.orientation = exif.orientation(metadata, xmp)  # a TIFF is turned by Pillow itself

    def read(self, region: Region | None) -> Image:
        """The stored picture, or ``region`` of it; the first frame of several."""
        _load(self._file, self._tolerate)
        pixels = _rgb(self._file)
        return pixels if region is None else crop(pixels, region)


def read_jpeg(data: memoryview, *, tolerate: bool) -> Image:
    """The stored picture of a JPEG; CMYK and YCCK are taken to be inverted, as Adobe writes them."""
    jpeg = without_metadata(data)
    if not tolerate:
        return _jpeg(jpeg)
    try:
        return _jpeg(jpeg + _EOI)  # without one nothing of a progressive picture would come out
    except Exception:
        # Perhaps it was cut within the tables between two scans.
        return _jpeg(jpeg[: max(jpeg.rfind(_DHT), jpeg.rfind(_SOS))] + _EOI)


def _jpeg(jpeg: bytes) -> Image:
    file = JpegImageFile(BytesIO(jpeg))
    file.load()
    return _rgb(file)


def _load(file: ImageFile, tolerate: bool) -> None:
    try:
        file.load()
    except Exception:
        if not tolerate:
            raise
        # What was decoded before the error stays in the image. PIL.ImageFile.LOAD_TRUNCATED_IMAGES would do the
        # same for every image of the process, the user's own too.
        file.tile = []
        file.load()


def _rgb(file: ImageFile) -> Image:
    if file.mode.startswith("I;16"):
        deep = np.asarray(file)
        grey = (deep >> 8).astype(np.uint8)
        if isinstance(clear := file.info.get("transparency"), int):
            grey[deep == clear] = 255
        return np.repeat(grey[..., None], 3, axis=2)
    if file.mode in ("I", "F"):
        return np.repeat(_stretched(np.asarray(file, np.float64))[..., None], 3, axis=2)
    image: PillowImage.Image = file
    if file.has_transparency_data:
        white = PillowImage.new("RGBA", file.size, "white")
        image = PillowImage.alpha_composite(white, file.convert("RGBA"))
    return np.array(image.convert("RGB"))


def _stretched(values: np.ndarray) -> np.ndarray:
    """32-bit integers and floats, which have no agreed white: from their own least to their own greatest value."""
    finite = values[np.isfinite(values)]
    least, greatest = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    scale = 255 / (greatest - least) if greatest > least else 0.0
    values = np.nan_to_num(values, nan=least, posinf=greatest, neginf=least)
    return ((values - least) * scale).astype(np.uint8)


def _webp_size(data: memoryview) -> tuple[int, int]:
    """https://www.rfc-editor.org/rfc/rfc9649, sections 2.5 to 2.7."""
    if not features.check("webp"):
        raise DecodeError("WebP: this Pillow was built without it", reason="unsupported_format")
    if len(data) < 30 or unpack_from("<I", data, 4)[0] + 8 > len(data):
        raise DecodeError(f"WebP: its {len(data):,} bytes end early", reason="truncated")
    chunk = bytes(data[12:16])
    if chunk == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
    elif chunk == b"VP8L":
        (bits,) = unpack_from("<I", data, 21)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (side & 0x3FFF for side in unpack_from("<HH", data, 26))
    return width, height


def _png_exif(data: memoryview, *, check: bool) -> bytes:
    """The eXIf chunk, which may come after the pixels; ``check`` the sums of the chunks that make the picture.

    Pillow does not check those of the pixels. https://www.w3.org/TR/png-3/#5Chunk-layout
    """
    found = b""
    at = 8
    while at + 12 <= len(data):
        length, kind = unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data) or kind == b"IEND":
            break
        if kind == b"eXIf":
            found = bytes(data[at + 8 : end - 4])
        elif check and kind[0] & 0x20 == 0:  # an upper-case first letter: nothing can be decoded without it
            _check_sum(data[at + 4 : end - 4], unpack_from(">I", data, end - 4)[0])
        at = end
    return found


def _check_sum(chunk: memoryview, expected: int) -> None:
    if zlib.crc32(chunk) != expected:
        raise DecodeError(f"PNG: the checksum of its {bytes(chunk[:4])!r} chunk is wrong", reason="corrupt")
