"""Only a part is decoded, and it has the very pixels that the whole picture has there."""

from __future__ import annotations

import io

import numpy as np
import pytest
import simplejpeg
from decode_samples import exif_block, photo, turbojpeg, with_segment
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from asyncload.decode import Decode, Decoder, SimpleJpeg
from asyncload.errors import DecodeError
from asyncload.types import Region

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (120, 200, 3), np.uint8)
BLURRED = np.asarray(Image.fromarray(NOISE).filter(ImageFilter.GaussianBlur(2)))


def progressive(image: np.ndarray, subsampling: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", progressive=True, subsampling=subsampling, quality=90)
    return file.getvalue()


KINDS = {
    **{s: simplejpeg.encode_jpeg(NOISE, 90, "RGB", s) for s in ("444", "422", "420", "440", "411", "Gray")},
    **{f"progressive {s}": progressive(NOISE, s) for s in ("4:4:4", "4:2:2", "4:2:0")},
    "smooth 420": simplejpeg.encode_jpeg(np.ascontiguousarray(BLURRED), 75, "RGB", "420"),
    "restarts": (lambda f: (Image.fromarray(NOISE).save(f, "JPEG", restart_marker_blocks=3), f.getvalue())[1])(
        io.BytesIO()
    ),
}
KINDS["turned"] = with_segment(KINDS["420"], exif_block(6))


class Counting:
    """TurboJPEG, and how often it was asked for a part."""

    name, version, decodes_parts = "counting", "1", True

    def __init__(self) -> None:
        self.codec = turbojpeg()
        self.parts = 0

    def decode(self, data: memoryview, pixels: np.ndarray, part: object = None) -> str:
        self.parts += part is not None
        return self.codec.decode(data, pixels, part)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_part_has_the_pixels_of_the_whole(kind: str, data: st.DataObject) -> None:
    whole = Decoder(backend=SimpleJpeg()).decode(KINDS[kind])
    height, width = whole.shape[:2]
    left, top = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    wide, high = data.draw(st.integers(1, width - left)), data.draw(st.integers(1, height - top))
    region = Region(left, top, wide, high, 1, 1)
    part = Decoder(backend=turbojpeg()).decode(KINDS[kind], lambda *_: region)
    assert np.array_equal(part, whole[top : top + high, left : left + wide])


def test_narrow_parts_at_the_edges() -> None:
    whole = Decoder(backend=SimpleJpeg()).decode(KINDS["420"])
    decoder = Decoder(backend=turbojpeg())
    for left in (0, 1, 2, 197, 198, 199):
        part = decoder.decode(KINDS["420"], lambda *_, left=left: Region(left, 118, 1, 2, 1, 1))
        assert np.array_equal(part, whole[118:, left : left + 1])


def test_what_is_left_out_is_not_decoded() -> None:
    codec = Counting()
    decoder = Decoder(backend=codec)
    decoder.decode(KINDS["420"], lambda width, height: Region(50, 40, 64, 48, 1, 1))
    assert codec.parts == 1
    decoder.decode(KINDS["420"], lambda width, height: Region(0, 0, width, height, 1, 1))
    decoder.decode(KINDS["420"])
    assert codec.parts == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_cut_off_is_refused_wherever_the_region_is(kind: str) -> None:
    cut = KINDS[kind][: len(KINDS[kind]) * 3 // 4]
    for top in (0, 60, 110):
        with pytest.raises(DecodeError) as caught:
            Decoder(backend=turbojpeg()).decode(cut, lambda width, height, top=top: Region(2, top, 8, 8, 1, 1))
        assert caught.value.reason == "truncated"
    Decoder(Decode(tolerate_truncated=True), backend=turbojpeg()).decode(cut, lambda *_: Region(2, 2, 8, 8, 1, 1))


def test_bytes_behind_the_end_are_harmless() -> None:
    codec = Counting()
    data = KINDS["420"] + b"written by a camera"
    part = Decoder(backend=codec).decode(data, lambda *_: Region(50, 40, 64, 48, 1, 1)).copy()
    assert codec.parts == 1
    assert np.array_equal(part, Decoder(backend=SimpleJpeg()).decode(KINDS["420"])[40:88, 50:114])


def test_a_giant_of_one_row() -> None:
    strip = simplejpeg.encode_jpeg(np.ascontiguousarray(np.tile(photo(1, 64), (1, 100, 1))), 90)
    whole = Decoder(backend=SimpleJpeg()).decode(strip)
    part = Decoder(backend=turbojpeg()).decode(strip, lambda *_: Region(3001, 0, 17, 1, 1, 1))
    assert np.array_equal(part, whole[:, 3001:3018])
