"""Small images in every format, made here."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from asyncload.decode import PillowJpeg, SimpleJpeg, TurboJpeg


def photo(height: int = 48, width: int = 64) -> np.ndarray:
    """Smooth in places and noisy in others, and different at each edge."""
    y, x = np.mgrid[0:height, 0:width]
    smooth = np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height)], axis=-1)
    noise = np.random.default_rng(0).integers(-25, 25, smooth.shape)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def encoded(image: Image.Image | np.ndarray, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(file, format, **options)
    return file.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def reference(data: bytes) -> np.ndarray:
    return np.asarray(opened(data).convert("RGB"))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(samples: np.ndarray, depth: int, colour: int, before: bytes = b"", after: bytes = b"") -> bytes:
    """A PNG of 8 or 16 bits a sample, with other chunks before and after the pixels."""
    height, width = samples.shape[:2]
    rows = samples.astype(">u2" if depth == 16 else "u1").reshape(height, -1)
    pixels = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(pixels)) + after
    return b"\x89PNG\r\n\x1a\n" + chunks + chunk(b"IEND", b"")


def exif_block(orientation: int, order: str = "<", kind: int = 3, header: bytes = b"Exif\0\0") -> bytes:
    magic = b"II*\0" if order == "<" else b"MM\0*"
    value = struct.pack(order + "HH", orientation, 0) if kind == 3 else struct.pack(order + "I", orientation)
    entries = struct.pack(order + "HHI4s", 0x010F, 2, 4, b"Cam\0") + struct.pack(
        order + "HHI4s", 0x0112, kind, 1, value
    )
    return header + magic + struct.pack(order + "IH", 8, 2) + entries + struct.pack(order + "I", 0)


def with_segment(jpeg: bytes, content: bytes, marker: int = 0xE1) -> bytes:
    """``jpeg`` with one more marker segment, the first of all."""
    return jpeg[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content + jpeg[2:]


def with_size(jpeg: bytes, width: int, height: int) -> bytes:
    """``jpeg`` with another size in its frame header."""
    at = next(found for found in map(jpeg.find, (b"\xff\xc0", b"\xff\xc2")) if found > 0)
    return jpeg[: at + 5] + struct.pack(">HH", height, width) + jpeg[at + 9 :]


def without_segments(jpeg: bytes, marker: int) -> bytes:
    kept, at = jpeg[:2], 2
    while jpeg[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        if jpeg[at + 1] != marker:
            kept += jpeg[at:end]
        at = end
    return kept + jpeg[at:]


def turbojpeg() -> TurboJpeg:
    try:
        return TurboJpeg()
    except OSError as error:
        pytest.skip(str(error))


BACKENDS = {"turbojpeg": turbojpeg, "simplejpeg": SimpleJpeg, "pillow": PillowJpeg}
LIBJPEG_BACKENDS = {name: make for name, make in BACKENDS.items() if name != "pillow"}
