"""Orientation is that of PIL.ImageOps.exif_transpose, and metadata can never break an image."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from decode_samples import (
    BACKENDS,
    chunk,
    encoded,
    exif_block,
    opened,
    photo,
    png,
    with_segment,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from asyncload.decode import Backend, Decode, Decoder
from asyncload.decode.exif import orientation
from asyncload.types import Region

PHOTO = photo()
JPEG = encoded(PHOTO, "JPEG")
XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
XMP_SEGMENT = b"http://ns.adobe.com/xap/1.0/\0" + XMP


def tiff(value: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = value
    return encoded(PHOTO, "TIFF", exif=exif)


FORMATS: dict[str, Callable[[int], bytes]] = {
    "JPEG": lambda value: with_segment(JPEG, exif_block(value)),
    "JPEG, big-endian": lambda value: with_segment(JPEG, exif_block(value, ">")),
    "CMYK JPEG": lambda value: with_segment(encoded(Image.fromarray(PHOTO).convert("CMYK"), "JPEG"), exif_block(value)),
    "PNG": lambda value: png(PHOTO, 8, 2, before=chunk(b"eXIf", exif_block(value, ">", header=b""))),
    "PNG, after its pixels": lambda value: png(PHOTO, 8, 2, after=chunk(b"eXIf", exif_block(value, header=b""))),
    "WebP": lambda value: encoded(PHOTO, "WEBP", lossless=True, exif=exif_block(value)),
    "WebP, bare": lambda value: encoded(PHOTO, "WEBP", lossless=True, exif=exif_block(value, header=b"")),
    "TIFF": tiff,
}


def transposed(data: bytes) -> np.ndarray:
    return np.asarray(ImageOps.exif_transpose(opened(data)).convert("RGB"))


@pytest.mark.parametrize("value", range(1, 9))
@pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)
def test_upright_as_pillow_makes_it(make: Callable[[int], bytes], value: int) -> None:
    data = make(value)
    expected = transposed(data)
    assert expected.shape == ((48, 64, 3) if value < 5 else (64, 48, 3))
    decoder = Decoder(Decode(tiff=True))
    image = decoder.decode(data)
    assert np.array_equal(image, expected)
    assert image.flags.c_contiguous

    sizes = []

    def choose(width: int, height: int) -> Region:
        sizes.append((width, height))
        return Region(3, 5, 17, 11, 1, 1)

    assert np.array_equal(decoder.decode(data, choose), expected[5:16, 3:20])
    assert sizes == [expected.shape[1::-1]]


@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_every_jpeg_codec_gets_the_same_region(make: Callable[[], Backend]) -> None:
    data = with_segment(JPEG, exif_block(8))
    image = Decoder(backend=make()).decode(data, lambda width, height: Region(40, 1, 8, 60, 8, 60))
    assert np.array_equal(image, transposed(data)[1:61, 40:48])


@pytest.mark.parametrize("block", [
    exif_block(6, kind=4),
    exif_block(6, kind=4, order=">"),
])  # fmt: skip
def test_a_tag_of_the_wrong_type_still_counts(block: bytes) -> None:
    data = with_segment(JPEG, block)
    assert np.array_equal(Decoder().decode(data), transposed(data))


def test_xmp_counts_where_exif_says_nothing() -> None:
    no_tag = exif_block(6).replace(struct.pack("<H", 0x0112), struct.pack("<H", 0x0111))
    stored = Decoder().decode(JPEG).copy()
    quarter, half = np.rot90(stored, -1), np.rot90(stored, 2)
    with_xmp = with_segment(JPEG, XMP_SEGMENT)
    assert np.array_equal(Decoder().decode(with_xmp), quarter)
    assert np.array_equal(Decoder().decode(with_segment(with_xmp, no_tag)), quarter)
    assert np.array_equal(Decoder().decode(with_segment(with_xmp, exif_block(3))), half)
    webp = encoded(PHOTO, "WEBP", lossless=True, xmp=XMP)
    assert np.array_equal(Decoder().decode(webp), np.rot90(PHOTO, -1))


def test_exif_may_go_on_in_a_second_segment() -> None:
    whole = exif_block(6)
    data = with_segment(with_segment(JPEG, b"Exif\0\0" + whole[20:]), whole[:20])
    assert np.array_equal(Decoder().decode(data), np.rot90(Decoder().decode(JPEG), -1))


HOSTILE = [
    b"",
    b"Exif\0\0",
    b"Exif\0\0II",
    b"Exif\0\0II*\0",
    b"Exif\0\0XX*\0\x08\0\0\0",
    b"Exif\0\0II*\0\xff\xff\xff\xff",
    b"Exif\0\0II*\0\x08\0\0\0\xff\xff",  # 65,535 entries that are not there
    exif_block(0),
    exif_block(9),
    exif_block(65535),
    exif_block(6)[:-20],
    exif_block(6).replace(struct.pack("<HHI", 0x0112, 3, 1), struct.pack("<HHI", 0x0112, 3, 2**32 - 1)),
    exif_block(6).replace(struct.pack("<HHI", 0x0112, 3, 1), struct.pack("<HHI", 0x0112, 99, 1)),
]


@pytest.mark.parametrize("block", HOSTILE)
@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_broken_metadata_are_as_none(make: Callable[[], Backend], block: bytes) -> None:
    plain = Decoder().decode(JPEG).copy()
    assert np.array_equal(Decoder(backend=make()).decode(with_segment(JPEG, block)), plain)
    bare = block.removeprefix(b"Exif\0\0")
    assert np.array_equal(Decoder().decode(png(PHOTO, 8, 2, before=chunk(b"eXIf", bare))), PHOTO)
    if block:
        assert np.array_equal(Decoder().decode(encoded(PHOTO, "WEBP", lossless=True, exif=block)), PHOTO)


@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_other_broken_segments_do_no_harm(make: Callable[[], Backend]) -> None:
    plain = Decoder().decode(JPEG).copy()
    for marker, content in (
        (0xED, b"Photoshop 3.0\x008BIM\0"),
        (0xE2, b"ICC_PROFILE\0"),
        (0xE2, b"MPF\0"),
        (0xFE, b""),
    ):
        data = with_segment(JPEG, content, marker)
        assert np.array_equal(Decoder(backend=make()).decode(data), plain)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([b"", b"Exif\0\0"]), st.sampled_from([b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08", b""]), st.binary())
def test_any_bytes_have_an_orientation(header: bytes, magic: bytes, rest: bytes) -> None:
    assert 1 <= orientation(header + magic + rest) <= 8


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32 - 1), st.binary(max_size=60))
def test_any_place_for_the_first_directory(offset: int, rest: bytes) -> None:
    assert 1 <= orientation(b"II*\0" + struct.pack("<I", offset) + rest) <= 8
