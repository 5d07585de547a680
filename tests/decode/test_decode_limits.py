"""What is refused before anything is decoded, and how it is said."""

from __future__ import annotations

import pickle
import re
import struct
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from decode_samples import BACKENDS, chunk, encoded, photo, with_segment, with_size
from PIL import Image

from asyncload.decode import Backend, Decode, Decoder
from asyncload.decode.faults import as_decode_error
from asyncload.decode.jpeg import Scratch
from asyncload.errors import DecodeError

PHOTO = photo()
JPEG = encoded(PHOTO, "JPEG")
PROGRESSIVE = encoded(PHOTO, "JPEG", progressive=True)


def refused(data: bytes, settings: Decode | None = None, backend: Backend | None = None) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        Decoder(settings, backend=backend).decode(data)
    return caught.value


# --- settings ---


def test_settings_travel_by_pickle() -> None:
    settings = Decode(max_pixels=7, tiff=True)
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_pixels": 0}, ValueError, "max_pixels to be at least 1, got 0"),
        ({"max_pixels": 1e6}, TypeError, "max_pixels to be an int, got 1000000.0"),
        ({"max_scans": True}, TypeError, "max_scans to be an int, got True"),
        ({"max_scans": -3}, ValueError, "max_scans to be at least 1, got -3"),
        ({"tiff": "no"}, TypeError, "tiff to be True or False, got 'no'"),
        ({"tolerate_truncated": 1}, TypeError, "tolerate_truncated to be True or False, got 1"),
    ],
)
def test_bad_settings(options: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Decode(**options)  # type: ignore[arg-type]


# --- format ---


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"", "got 0 bytes"),
        (b"\xff\xd8", "got 2 bytes"),
        (b"<!DOCTYPE html><html>", "start with b'<!DOCTYPE html>.*looks like HTML"),
        (b"\xef\xbb\xbf\r\n <HTML>", "looks like HTML"),
        (b"<?xml version='1.0'?>\n<!-- logo --><svg xmlns=''/>", "looks like SVG"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "looks like XML"),
        (b'{"error": "not found"}', "looks like JSON"),
        (b"%PDF-1.7\n", "looks like PDF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "looks like PostScript"),
        (b"\x1f\x8b\x08\0", "looks like gzip"),
        (b"PK\x03\x04\x14\0", "looks like zip"),
        (b"\0\0\0\x20ftypisom\0\0\2\0", "looks like MP4 video"),
        (b"\0" * 100, "got 100 bytes"),
        (b"BM" + b"\xff" * 50, "got 52 bytes"),
        (b"Image not found", r"start with b'Image not found'$"),
    ],
)
def test_not_an_image(data: bytes, hint: str) -> None:
    error = refused(data)
    assert error.reason == "not_image"
    assert re.search(hint, str(error))


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (encoded(PHOTO, "TIFF"), r"TIFF is refused; set Decode\(tiff=True\)"),
        (encoded(PHOTO, "JPEG2000"), "JPEG 2000"),
        (encoded(PHOTO, "ICO"), "ICO"),
        (encoded(PHOTO, "PPM"), "PNM"),
        (encoded(PHOTO, "DDS"), "DDS"),
        (b"\0\0\0\x1cftypavif\0\0\0\0", "AVIF"),
        (b"\0\0\0\x1cftypheic\0\0\0\0", "HEIC"),
        (b"8BPS\0\x01", "PSD"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"II\xbc\x01", "JPEG XR"),
        (b"v/1\x01\x02", "OpenEXR"),
        (b"#?RADIANCE\n", "Radiance HDR"),
    ],
)
def test_formats_that_are_not_decoded(data: bytes, name: str) -> None:
    error = refused(data)
    assert error.reason == "unsupported_format"
    assert re.search(name, str(error))


@pytest.mark.parametrize(
    ("marker", "bits", "text"),
    [
        (0xC1, 12, "got one of 12 bits"),
        (0xC3, 8, "got a lossless one"),
        (0xC3, 16, "got a lossless one of 16 bits"),
        (0xC5, 8, "got a hierarchical one"),
        (0xC9, 8, "got an arithmetic-coded one"),
        (0xCA, 8, "got an arithmetic-coded one"),
    ],
)
@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_rare_kinds_of_jpeg(make: Callable[[], Backend], marker: int, bits: int, text: str) -> None:
    at = JPEG.index(b"\xff\xc0")
    data = JPEG[:at] + bytes([0xFF, marker, 0, 17, bits]) + JPEG[at + 5 :]
    error = refused(data, backend=make())
    assert error.reason == "unsupported_format"
    assert text in str(error)


def test_a_jpeg_of_two_components() -> None:
    at = JPEG.index(b"\xff\xc0")
    error = refused(JPEG[: at + 9] + b"\x02" + JPEG[at + 10 :])
    assert error.reason == "unsupported_format"
    assert "got 2" in str(error)


# --- size ---


def webp_canvas(width: int, height: int) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    extended = b"VP8X" + struct.pack("<I", 10) + b"\x10\0\0\0" + sides
    body = b"WEBP" + extended + encoded(PHOTO, "WEBP", lossless=True)[12:]
    return b"RIFF" + struct.pack("<I", len(body)) + body


def png_of(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"x") + chunk(b"IEND", b"")


def gif_of(width: int, height: int) -> bytes:
    data = encoded(PHOTO, "GIF")
    return data[:6] + struct.pack("<HH", width, height) + data[10:]


def bmp_of(width: int, height: int) -> bytes:
    data = encoded(PHOTO, "BMP")
    return data[:18] + struct.pack("<ii", width, height) + data[26:]


def tiff_of(width: int, height: int) -> bytes:
    data = bytearray(encoded(PHOTO, "TIFF"))
    for tag, value in ((256, width), (257, height)):
        at = data.index(struct.pack("<HHI", tag, 4, 1))
        data[at + 8 : at + 12] = struct.pack("<I", value)
    return bytes(data)


BOMBS = {
    "JPEG": with_size(JPEG, 65500, 65500),
    "progressive JPEG": with_size(PROGRESSIVE, 65500, 65500),
    "PNG": png_of(65500, 65500),
    "WebP": webp_canvas(16383, 16383),
    "GIF": gif_of(65500, 65500),
    "BMP": bmp_of(65500, 65500),
    "TIFF": tiff_of(65500, 65500),
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_a_giant_is_refused_before_memory_is_asked_for(data: bytes) -> None:
    decoder = Decoder(Decode(tiff=True))

    def choose(width: int, height: int) -> None:
        pytest.fail("asked for a region of it")

    tracemalloc.start()
    with pytest.raises(DecodeError, match=r"more than Decode.max_pixels, 100,000,000; raise it") as caught:
        decoder.decode(data, choose)  # type: ignore[arg-type]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.reason == "too_many_pixels"
    assert peak < 2_000_000


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_the_limit_itself_is_allowed(format: str) -> None:
    data = encoded(PHOTO, format)
    assert Decoder(Decode(max_pixels=64 * 48)).decode(data).shape == (48, 64, 3)
    assert "64x48 is 3,072 pixels" in str(refused(data, Decode(max_pixels=64 * 48 - 1)))


def test_a_gif_frame_larger_than_its_screen_counts() -> None:
    error = refused(gif_of(1, 1), Decode(max_pixels=64 * 48 - 1))
    assert error.reason == "too_many_pixels"


@pytest.mark.parametrize("data", [with_size(JPEG, 0, 48), with_size(JPEG, 64, 0), png_of(0, 5), bmp_of(0, 48)])
def test_no_pixels_at_all(data: bytes) -> None:
    assert refused(data).reason == "corrupt"


def test_memory_that_is_not_there() -> None:
    error = as_decode_error(MemoryError(), "PNG")
    assert error.reason == "too_many_pixels"
    assert "lower Decode.max_pixels" in str(error)


def test_pillows_own_limit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    error = refused(encoded(PHOTO, "TIFF"), Decode(tiff=True))
    assert error.reason == "too_many_pixels"
    assert "PIL.Image.MAX_IMAGE_PIXELS" in str(error)


# --- scans ---


def scan_bomb(scans: int) -> bytes:
    last = PROGRESSIVE.rindex(b"\xff\xda")
    return PROGRESSIVE[:-2] + PROGRESSIVE[last:-2] * scans + PROGRESSIVE[-2:]


@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_too_many_scans(make: Callable[[], Backend]) -> None:
    error = refused(scan_bomb(10_000), backend=make())
    assert error.reason == "too_many_scans"
    assert "more than Decode.max_scans, 100; raise it" in str(error)


@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_the_limit_of_scans_is_the_users(make: Callable[[], Backend]) -> None:
    scans = PROGRESSIVE.count(b"\xff\xda")
    assert Decoder(Decode(max_scans=scans), backend=make()).decode(PROGRESSIVE).shape == (48, 64, 3)
    assert refused(PROGRESSIVE, Decode(max_scans=scans - 1), make()).reason == "too_many_scans"


def test_scans_of_single_components_count() -> None:
    at = JPEG.index(b"\xff\xda") + 4
    data = JPEG[:at] + b"\x01" + JPEG[at + 1 :] + b"\xff\xda" * 100
    assert refused(data).reason == "too_many_scans"


def test_cmyk_does_not_escape_the_limit() -> None:
    data = encoded(Image.fromarray(PHOTO).convert("CMYK"), "JPEG", progressive=True)
    assert refused(data, Decode(max_scans=3)).reason == "too_many_scans"


def test_baseline_thumbnails_and_appended_files_do_not_count() -> None:
    data = with_segment(JPEG, b"\xff\xda" * 200) + b"\xff\xda" * 200
    assert Decoder().decode(data).shape == (48, 64, 3)


def test_a_header_without_end_is_refused() -> None:
    error = refused(JPEG[:2] + b"\xff\xfe\0\2" * 20_000 + JPEG[2:])
    assert error.reason == "corrupt"
    assert "10,000 segments" in str(error)


def test_a_megabyte_of_fill_bytes_takes_no_time() -> None:
    fill = b"\xff" * 1_000_000
    assert Decoder().decode(JPEG[:20] + fill + JPEG[20:]).shape == (48, 64, 3)
    assert refused(JPEG[:20] + fill + b"\0").reason == "truncated"


# --- memory between pictures ---


def test_memory_is_reused_but_a_giants_is_given_back() -> None:
    scratch = Scratch(reuse=True)
    first = scratch.pixels(100, 100)
    assert np.shares_memory(first, scratch.pixels(50, 70))
    larger = scratch.pixels(200, 100)
    assert np.shares_memory(larger, scratch.pixels(100, 100))
    giant = scratch.pixels(5000, 5000)
    assert not np.shares_memory(giant, scratch.pixels(100, 100))
    assert not np.shares_memory(giant, scratch.pixels(5000, 5000))
