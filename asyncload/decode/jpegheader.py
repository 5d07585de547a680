"""The markers of a JPEG up to its first scan: size, kind and orientation, before any pixel is decoded.

Marker codes are those of ITU-T T.81, table B.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from asyncload.decode import exif
from asyncload.errors import DecodeError

__all__ = ["Header", "read_header", "without_metadata"]

_MARKER = re.compile(rb"\xff[\x01-\xfe]")  # searched for, as libjpeg does: fill bytes and surplus ones are skipped
_length_at = Struct(">H").unpack_from
_frame_at = Struct(">BHHB").unpack_from

_SOF0, _SOF1, _SOF2 = 0xC0, 0xC1, 0xC2
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # those three are DHT, JPG and DAC
_STANDALONE = frozenset(range(0xD0, 0xD9)) | {0x01}
_EOI, _SOS = 0xD9, 0xDA
_APP0, _APP1, _APP14, _APP15, _COM = 0xE0, 0xE1, 0xEE, 0xEF, 0xFE
_EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
_MAX_SEGMENTS = 10_000  # each takes Python a microsecond, and a megabyte has room for 260,000 empty ones


class Header(NamedTuple):
    """What is known of a JPEG before it is decoded.

    ``width`` and ``height`` are those of the stored picture, ``orientation`` (1 to 8) says how to turn it.
    ``components`` is 1 (grey), 3 (colour) or 4 (CMYK or YCCK). ``mcu_width`` is the width, in pixels, of the units that
    it is coded in. ``scan`` is where the first scan's marker begins; ``many_scans`` whether others may follow that the
    decoder must read before it has one pixel.
    """

    width: int
    height: int
    components: int
    mcu_width: int
    orientation: int
    scan: int
    many_scans: bool


def _segments(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """(marker, where it begins, where its content begins, where it ends) up to the first scan, which is the last."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        match = _MARKER.search(data, at)
        if match is None:
            raise DecodeError(f"JPEG: its {len(data):,} bytes end before the picture begins", reason="truncated")
        marker, at = data[match.end() - 1], match.end()
        if marker in _STANDALONE:
            continue
        if marker == _EOI:
            raise DecodeError("JPEG: it ends without a picture in it", reason="corrupt")
        if at + 2 > len(data) or at + (length := _length_at(data, at)[0]) > len(data):
            raise DecodeError(f"JPEG: its {len(data):,} bytes end within its header", reason="truncated")
        yield marker, match.start(), at + 2, at + length
        at += length
    raise DecodeError(f"JPEG: more than {_MAX_SEGMENTS:,} segments before the picture", reason="corrupt")


def read_header(data: memoryview) -> Header:
    """Raises :class:`DecodeError`: ``truncated``, ``corrupt``, or ``unsupported_format`` for a kind that few decode."""
    metadata, xmp = [], b""
    frame, frame_marker = (0, 0, 0, 0), 0
    for marker, start, content, end in _segments(data):
        if marker == _APP1:
            segment = bytes(data[content:end])
            if segment.startswith(_EXIF):
                metadata.append(segment.removeprefix(_EXIF))  # longer ones go on in the next segment
            elif segment.startswith(_XMP):
                xmp = segment
        elif marker in _SOF and not frame_marker:
            frame, frame_marker = _frame_at(data, content), marker
            sampling = bytes(data[content + 7 : end : 3])  # of each component, across and down, 4 bits each
        elif marker == _SOS:
            scan, scan_components = start, data[content]
            break
    bits, height, width, components = frame
    if not frame_marker:
        raise DecodeError("JPEG: a scan begins before any frame header", reason="corrupt")
    if frame_marker not in (_SOF0, _SOF1, _SOF2) or bits != 8:
        raise DecodeError(
            f"JPEG: expected a baseline or progressive one of 8 bits a sample, got {_kind(frame_marker)} of {bits} "
            "bits; convert it",
            reason="unsupported_format",
        )
    if components not in (1, 3, 4):
        raise DecodeError(
            f"JPEG: expected 1, 3 or 4 components, got {components}; convert it", reason="unsupported_format"
        )
    many_scans = frame_marker == _SOF2 or scan_components < components
    # A grey picture's units are single blocks, whatever its sampling factor says.
    mcu_width = 8 * max((factors >> 4 for factors in sampling), default=1) if components > 1 else 8
    return Header(width, height, components, mcu_width, exif.orientation(b"".join(metadata), xmp), scan, many_scans)


def _kind(frame_marker: int) -> str:
    if frame_marker in (0xC3, 0xC7, 0xCB, 0xCF):
        return "a lossless one"
    if frame_marker >= 0xC9:
        return "an arithmetic-coded one"
    return "a hierarchical one" if frame_marker >= 0xC5 else "one"


def without_metadata(data: memoryview) -> bytes:
    """The same picture without EXIF, comments and the like, on which a stricter reader might stumble.

    What says how its colours are coded (APP0 JFIF and APP14 Adobe) stays.
    """
    kept = [b"\xff\xd8"]
    for marker, start, _, end in _segments(data):
        if marker == _SOS:
            kept.append(bytes(data[start:]))
            break
        if marker in (_APP0, _APP14) or not (_APP0 <= marker <= _APP15 or marker == _COM):
            kept.append(bytes(data[start:end]))
    return b"".join(kept)
