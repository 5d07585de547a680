"""Damaged files of every format are refused by DecodeError and by nothing else."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest
from decode_samples import chunk, encoded, photo, png, with_segment
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from asyncload.decode import Decode, Decoder
from asyncload.errors import DecodeError

PHOTO = photo()
PALETTE = Image.fromarray(PHOTO).quantize(32)
FILES = {
    "JPEG": encoded(PHOTO, "JPEG"),
    "PNG": encoded(PHOTO, "PNG"),
    "palette PNG": encoded(PALETTE, "PNG", transparency=3),
    "WebP": encoded(PHOTO, "WEBP"),
    "lossless WebP": encoded(PHOTO, "WEBP", lossless=True),
    "GIF": encoded(PALETTE, "GIF"),
    "BMP": encoded(PHOTO, "BMP"),
    "TIFF": encoded(PHOTO, "TIFF"),
    "packed TIFF": encoded(PHOTO, "TIFF", compression="tiff_deflate"),
    "JPEG TIFF": encoded(PHOTO, "TIFF", compression="jpeg"),
}
every_file = pytest.mark.parametrize("data", FILES.values(), ids=FILES)
REASONS = {"corrupt", "not_image", "too_many_pixels", "too_many_scans", "truncated", "unsupported_format"}
SETTINGS = Decode(tiff=True, max_pixels=1_000_000)


@every_file
@pytest.mark.filterwarnings("ignore::UserWarning:PIL.TiffImagePlugin")
def test_a_truncated_file_is_refused_or_whole(data: bytes) -> None:
    decoder = Decoder(SETTINGS)
    whole = decoder.decode(data).copy()
    reasons = set()
    for length in range(20, len(data), 1 + len(data) // 150):
        try:
            assert np.array_equal(decoder.decode(data[:length]), whole), length
        except DecodeError as error:
            reasons.add(error.reason)
    assert reasons
    assert reasons <= {"truncated", "corrupt"}


@pytest.mark.parametrize("name", ["JPEG", "PNG", "palette PNG", "WebP", "lossless WebP", "BMP", "GIF"])
def test_half_a_file_is_called_truncated(name: str) -> None:
    data = FILES[name]
    with pytest.raises(DecodeError) as caught:
        Decoder().decode(data[: len(data) // 2])
    assert caught.value.reason == "truncated"
    assert str(caught.value).startswith(name.split()[-1])


@pytest.mark.parametrize("name", ["PNG", "palette PNG", "GIF", "BMP", "TIFF"])
def test_tolerated_files_deliver_the_pixels_there_are(name: str) -> None:
    data = FILES[name]
    decoder = Decoder(Decode(tiff=True, tolerate_truncated=True))
    whole = decoder.decode(data).copy()
    half = decoder.decode(data[: len(data) * 2 // 3])
    assert half.shape == whole.shape
    same = (half == whole).all(axis=(1, 2))
    assert 12 <= same.sum() < len(whole)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_a_file_without_pixels_is_not_tolerated() -> None:
    for name in ("PNG", "WebP", "GIF", "BMP", "JPEG"):
        with pytest.raises(DecodeError):
            Decoder(Decode(tolerate_truncated=True)).decode(FILES[name][:30])


def test_a_wrong_checksum_of_the_pixels_is_corrupt() -> None:
    data = png(PHOTO, 8, 2)
    at = data.index(b"IEND") - 6
    wrong = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    with pytest.raises(DecodeError, match="checksum of its b'IDAT' chunk is wrong") as caught:
        Decoder().decode(wrong)
    assert caught.value.reason == "corrupt"
    assert np.array_equal(Decoder(Decode(tolerate_truncated=True)).decode(wrong), PHOTO)


def test_a_wrong_checksum_beside_the_pixels_does_no_harm() -> None:
    time = bytearray(chunk(b"tIME", b"\x07\xe8\x01\x01\0\0\0"))
    time[-1] ^= 1
    assert np.array_equal(Decoder().decode(png(PHOTO, 8, 2, after=bytes(time))), PHOTO)


def test_a_webp_that_is_shorter_than_it_says() -> None:
    data = FILES["WebP"]
    longer = data[:4] + struct.pack("<I", len(data)) + data[8:]
    with pytest.raises(DecodeError) as caught:
        Decoder().decode(longer)
    assert caught.value.reason == "truncated"


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\x20\0\0\0WEBPVP8 ", b"II*\0"]),
    st.binary(),
)
def test_any_bytes(magic: bytes, rest: bytes) -> None:
    with pytest.raises(DecodeError):
        Decoder(SETTINGS).decode(magic + rest)


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6)), min_size=1, max_size=4),
    st.booleans(),
)
def test_any_damage(name: str, damages: list[tuple[float, bytes]], tolerate: bool) -> None:
    data = bytearray(FILES[name])
    for place, damage in damages:
        at = int(place * len(data))
        data[at : at + len(damage)] = damage
    decoder = Decoder(Decode(tiff=True, max_pixels=1_000_000, tolerate_truncated=tolerate))
    try:
        image = decoder.decode(data)
    except DecodeError as refusal:
        error = refusal
    else:
        assert image.dtype == np.uint8
        assert image.shape[2] == 3
        return
    assert error.reason in REASONS
    assert len(str(error)) < 1000


def test_decoders_in_threads_do_not_disturb_each_other() -> None:
    files = [encoded(np.full((200, 300, 3), shade, np.uint8), "JPEG") for shade in (10, 90, 170, 250)]
    expected = [Decoder().decode(data).copy() for data in files]
    right: list[bool] = []

    def work(which: int) -> None:
        decoder = Decoder()
        right.extend(np.array_equal(decoder.decode(files[which]), expected[which]) for _ in range(30))

    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 120


def test_errors_do_not_depend_on_metadata() -> None:
    data = with_segment(FILES["JPEG"], b"Exif\0\0" + b"\xff" * 60)
    with pytest.raises(DecodeError) as caught:
        Decoder().decode(data[:-100])
    assert caught.value.reason == "truncated"
