"""Between the picture as it is stored and the image the right way up."""

from __future__ import annotations

from typing import NamedTuple

from asyncload.types import Image, Region

__all__ = ["Part", "crop", "part_around", "stored_region", "swaps_sides", "upright"]

# By EXIF orientation: 5 to 8 are transposed; after that the last row, or the last column, comes first.
_LAST_ROW_FIRST = frozenset({3, 4, 7, 8})
_LAST_COLUMN_FIRST = frozenset({2, 3, 6, 7})


def swaps_sides(orientation: int) -> bool:
    """Whether the upright image is as wide as the stored picture is high."""
    return orientation >= 5


def upright(pixels: Image, orientation: int) -> Image:
    """Stored ``pixels`` ``(H, W, 3)`` as a view that is the right way up."""
    if swaps_sides(orientation):
        pixels = pixels.swapaxes(0, 1)
    if orientation in _LAST_ROW_FIRST:
        pixels = pixels[::-1]
    if orientation in _LAST_COLUMN_FIRST:
        pixels = pixels[:, ::-1]
    return pixels


def stored_region(region: Region, orientation: int, width: int, height: int) -> Region:
    """Where ``region`` of the upright image, ``width`` by ``height``, lies in the stored picture."""
    left, top, wide, high, least_width, least_height = region
    if orientation in _LAST_COLUMN_FIRST:
        left = width - left - wide
    if orientation in _LAST_ROW_FIRST:
        top = height - top - high
    if swaps_sides(orientation):
        return Region(top, left, high, wide, least_height, least_width)
    return Region(left, top, wide, high, least_width, least_height)


class Part(NamedTuple):
    """A part of a stored picture of ``of_width`` by ``of_height`` pixels."""

    left: int
    top: int
    width: int
    height: int
    of_width: int
    of_height: int


def part_around(region: Region, width: int, height: int, mcu_width: int) -> Part:
    """What must be decoded of a JPEG of ``width`` by ``height`` so that ``region`` has the pixels of the whole picture.

    One pixel more on each side, because chroma is interpolated from its neighbours. libjpeg begins at the left edge of
    a coded unit, and interpolates more simply where there are only a few columns: so at least one unit.
    """
    left, top = max(0, region.left - 1) // mcu_width * mcu_width, max(0, region.top - 1)
    right = min(width, max(region.left + region.width + 1, left + mcu_width))
    bottom = min(height, region.top + region.height + 1)
    return Part(left, top, right - left, bottom - top, width, height)


def crop(pixels: Image, region: Region) -> Image:
    """``region`` of ``pixels``, a view."""
    return pixels[region.top : region.top + region.height, region.left : region.left + region.width]
