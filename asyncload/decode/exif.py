"""Which way up: the orientation in EXIF and XMP metadata."""

from __future__ import annotations

import re
import struct

__all__ = ["orientation"]

_TAG = 0x0112
_FORMAT_OF_TYPE = {1: "B", 3: "H", 4: "I"}  # BYTE, SHORT (as it should be) and LONG
_XMP = re.compile(rb'tiff:Orientation(?:="|>)([1-8])')


def orientation(exif: bytes, xmp: bytes = b"") -> int:
    """1 to 8 as in EXIF 2.3, section 4.6.4, or 1 where the metadata say nothing, or nothing that makes sense.

    ``exif`` is a TIFF structure, with or without ``Exif\\0\\0`` before it. ``xmp`` is asked where that has no such tag.
    """
    found = _from_exif(exif.removeprefix(b"Exif\0\0"))
    if found is None:
        match = _XMP.search(xmp)
        return int(match[1]) if match else 1
    return found if 1 <= found <= 8 else 1


def _from_exif(block: bytes) -> int | None:
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None or len(block) < 8:
        return None
    (at,) = struct.unpack_from(order + "I", block, 4)
    if at + 2 > len(block):
        return None
    (count,) = struct.unpack_from(order + "H", block, at)
    entries = block[at + 2 : at + 2 + 12 * count]
    for tag, kind, values, value in struct.iter_unpack(order + "HHI4s", entries[: len(entries) // 12 * 12]):
        if tag == _TAG and values == 1 and kind in _FORMAT_OF_TYPE:
            number: int = struct.unpack_from(order + _FORMAT_OF_TYPE[kind], value)[0]
            return number
    return None
