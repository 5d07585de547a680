"""Photographs that are not: painted landscapes, encoded the many ways in which real files are.

Number ``n`` is of class ``n % 10`` and has the ``(n + n // 10) % 24``-th of the encodings below, so every class meets
every encoding. All else (its size, and what is where in the picture) comes from a generator seeded with ``(seed, n)``.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageChops

from asyncload.testing.scenes import CLASSES, paint

__all__ = ["Photograph", "make_photograph", "make_picture", "photograph_name"]

_ORIENTATION_TAG = 0x0112  # of EXIF; its values 1..8 say how a reader has to turn or mirror the pixels
_GRAIN_TILE = 512


class _Encoding(NamedTuple):
    format: str
    mode: str = "RGB"
    subsampling: str | None = None
    progressive: bool = False
    orientation: int = 1


_BASELINE = _Encoding("JPEG", subsampling="4:2:0")
_PROGRESSIVE = _Encoding("JPEG", subsampling="4:2:0", progressive=True)
_HALF = _Encoding("JPEG", subsampling="4:2:2")
_FULL = _Encoding("JPEG", subsampling="4:4:4")
_GREY = _Encoding("JPEG", mode="L")
_PNG = _Encoding("PNG")
_WEBP = _Encoding("WEBP")
_ENCODINGS = (
    *(_BASELINE, _PROGRESSIVE, _BASELINE, _PNG, _FULL, _BASELINE._replace(orientation=6)),
    *(_BASELINE, _HALF, _GREY, _FULL._replace(orientation=3), _BASELINE, _PROGRESSIVE._replace(orientation=8)),
    *(_BASELINE, _WEBP, _PROGRESSIVE, _BASELINE._replace(orientation=2), _FULL, _HALF._replace(orientation=5)),
    *(_BASELINE, _PROGRESSIVE._replace(orientation=4), _HALF, _BASELINE, _GREY._replace(orientation=7), _BASELINE),
)
_EXTENSIONS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}
_STORED_AS = {  # what undoes each orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@dataclass(frozen=True, slots=True)
class Photograph:
    """One generated photograph.

    ``data`` is the encoded file and ``format`` what Pillow calls it (``"JPEG"``, ``"PNG"`` or ``"WEBP"``); ``mode`` is
    ``"RGB"`` or ``"L"``; ``size`` is ``(width, height)`` of the upright picture, which is what a viewer shows after it
    has obeyed the EXIF ``orientation`` (1..8, 1 for none). ``subsampling`` (``"4:2:0"``, ``"4:2:2"``, ``"4:4:4"``; None
    for grey and other formats) and ``progressive`` are a JPEG's. ``label`` is the index of its class.
    """

    number: int
    label: int
    format: str
    mode: str
    size: tuple[int, int]
    orientation: int
    subsampling: str | None
    progressive: bool
    data: bytes

    @property
    def content_type(self) -> str:
        return f"image/{self.format.lower()}"


def photograph_name(number: int) -> str:
    """``"00017.jpg"``: the file name of a photograph, known without making it."""
    return f"{number:05d}.{_EXTENSIONS[_encoding(number).format]}"


# Test suites start many servers of the same photographs; 512 of the usual size are about 30 MB.
@lru_cache(maxsize=512)
def make_photograph(seed: int, number: int, sides: tuple[int, int]) -> Photograph:
    """Paint and encode a photograph whose longer side is between the two ``sides``, in pixels; some 5 ms.

    The same arguments give the same bytes, for one version of numpy and of Pillow with its codecs.
    """
    encoding = _encoding(number)
    picture = make_picture(seed, number, sides)
    return Photograph(
        number=number,
        label=number % len(CLASSES),
        size=picture.size,
        data=_encoded(picture, encoding),
        **encoding._asdict(),
    )


def make_picture(seed: int, number: int, sides: tuple[int, int]) -> Image.Image:
    """The picture that :func:`make_photograph` encodes: upright, RGB."""
    rng = np.random.default_rng((seed, number))
    least, greatest = sides
    # Cubed, because small pictures are the more frequent ones in the wild.
    longer = round(least + (greatest - least) * rng.random() ** 3)
    shorter = round(longer / rng.choice((4 / 3, 4 / 3, 3 / 2, 16 / 9, 1)))
    width, height = (longer, shorter) if rng.random() < 0.65 else (shorter, longer)

    # Painting smaller is several times quicker, and leaves edges as soft as a lens does.
    scale = 1.0 if longer < 200 else 0.4
    pixels = paint(CLASSES[number % len(CLASSES)], round(width * scale), round(height * scale), rng)
    picture = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR)
    if _encoding(number).format == "PNG":  # grain makes a lossless file several times larger than those on the web
        return picture
    grain = Image.new("RGB", (width, height))
    for top in range(0, height, _GRAIN_TILE):
        for left in range(0, width, _GRAIN_TILE):
            grain.paste(_grain(), (left, top))
    return ImageChops.add(picture, grain, offset=-128)


@lru_cache(maxsize=1)
def _grain() -> Image.Image:
    """The noise of a sensor, around 128."""
    noise = np.random.default_rng(1).normal(128, 7, (_GRAIN_TILE, _GRAIN_TILE, 3))
    return Image.fromarray(noise.clip(0, 255).astype(np.uint8))


def _encoding(number: int) -> _Encoding:
    return _ENCODINGS[(number + number // len(CLASSES)) % len(_ENCODINGS)]


def _encoded(picture: Image.Image, encoding: _Encoding) -> bytes:
    picture = picture.convert(encoding.mode)
    exif = b""
    if encoding.orientation != 1:
        picture = picture.transpose(_STORED_AS[encoding.orientation])
        tags = Image.Exif()
        tags[_ORIENTATION_TAG] = encoding.orientation
        exif = tags.tobytes()
    file = io.BytesIO()
    picture.save(
        file,
        encoding.format,
        exif=exif,
        # Each codec takes those of the following that are its own.
        quality=95 - min(12, max(picture.size) // 80),  # finer where smaller, so that files are of like length
        progressive=encoding.progressive,
        subsampling=encoding.subsampling or "4:4:4",
        compress_level=4,
        method=0,
    )
    return file.getvalue()
