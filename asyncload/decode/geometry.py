"""Between the picture as it is stored and the image the right way up."""

from __future__ import annotations

from asyncload.types import Image, Region

__all__ = ["crop", "stored_region", "swaps_sides", "upright"]

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


def crop(pixels: Image, region: Region) -> Image:
    """``region`` of ``pixels``, a view."""
    return pixels[region.top : region.top + region.height, region.left : region.left + region.width]
