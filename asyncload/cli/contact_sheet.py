"""Many small pictures as a large one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from asyncload.types import Image as Pixels

__all__ = ["COLUMNS", "Picture", "contact_sheet", "sheet_size"]

COLUMNS = 8

_SIDE = 152
_GAP = 14
_CAPTION = 24
_MARGIN = 40
_HEADING = 62
_SUPERSAMPLING = 4  # for the rounded corners: Pillow draws them without smoothing

_PAPER = (250, 249, 246)
_INK = (52, 54, 60)
_FAINT = (128, 130, 136)


class Picture(NamedTuple):
    """``pixels``, square, and what stands below them."""

    pixels: Pixels
    caption: str


def sheet_size(pictures: int) -> tuple[int, int]:
    """``(width, height)`` in pixels of a contact sheet of so many pictures."""
    rows = -(-pictures // COLUMNS)
    width = 2 * _MARGIN + COLUMNS * (_SIDE + _GAP) - _GAP
    return width, _HEADING + rows * (_SIDE + _CAPTION + _GAP) - _GAP + _MARGIN


def contact_sheet(pictures: Sequence[Picture], title: str, subtitle: str) -> Image.Image:
    """A grid of ``pictures``, in reading order, under a heading."""
    sheet = Image.new("RGB", sheet_size(len(pictures)), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_MARGIN, 20), title, _INK, ImageFont.load_default(22))
    draw.text((sheet.width - _MARGIN, 26), subtitle, _FAINT, ImageFont.load_default(14), anchor="ra")
    font = ImageFont.load_default(13)
    corners = _rounded_square()
    for number, picture in enumerate(pictures):
        row, column = divmod(number, COLUMNS)
        left = _MARGIN + column * (_SIDE + _GAP)
        top = _HEADING + row * (_SIDE + _CAPTION + _GAP)
        thumbnail = Image.fromarray(picture.pixels).resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
        sheet.paste(thumbnail, (left, top), corners)
        draw.text((left + _SIDE // 2, top + _SIDE + 6), picture.caption, _FAINT, font, anchor="ma")
    return sheet


def _rounded_square() -> Image.Image:
    side = _SIDE * _SUPERSAMPLING
    mask = Image.new("L", (side, side), 0)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, side - 1, side - 1), 7 * _SUPERSAMPLING, fill=255)
    return mask.resize((_SIDE, _SIDE), Image.Resampling.BOX)
