"""What a file may ask of the decoder, checked before anything is allocated for it."""

from __future__ import annotations

from asyncload.decode.settings import Decode
from asyncload.errors import DecodeError

__all__ = ["check_scans", "check_size"]


def check_size(name: str, width: int, height: int, settings: Decode) -> None:
    """Raises :class:`DecodeError`: ``corrupt`` for no pixels at all, ``too_many_pixels`` above the limit."""
    if width < 1 or height < 1:
        raise DecodeError(f"{name}: expected at least one pixel, its header says {width}x{height}", reason="corrupt")
    if width * height > settings.max_pixels:
        raise DecodeError(
            f"{name}: {width}x{height} is {width * height:,} pixels, more than Decode.max_pixels, "
            f"{settings.max_pixels:,}; raise it to decode this",
            reason="too_many_pixels",
        )


def check_scans(data: memoryview, start: int, settings: Decode) -> None:
    """Raises :class:`DecodeError` ``too_many_scans`` if there may be more than the limit from ``start`` on.

    Within a scan, 0xFF is always followed by 0x00 or a restart marker, so this counts scans and, where something was
    appended to the picture, one more for every 64 KiB of it.
    """
    scans = bytes(data[start:]).count(b"\xff\xda")
    if scans > settings.max_scans:
        raise DecodeError(
            f"JPEG: {scans:,} scans, more than Decode.max_scans, {settings.max_scans:,}; raise it to decode this",
            reason="too_many_scans",
        )
