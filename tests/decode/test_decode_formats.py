"""Every format and kind of pixel comes out as upright uint8 RGB."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from decode_samples import chunk, encoded, opened, photo, png, reference
from PIL import Image

from asyncload.decode import Decode, Decoder
from asyncload.errors import DecodeError
from asyncload.types import Region

PHOTO = photo()
PICTURE = Image.fromarray(PHOTO)
GREY = PHOTO[..., 0]
DEEP = GREY.astype(np.uint16) * 256 + PHOTO[..., 1]


def as_rgb(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[..., None], 3, axis=2)


def over_white(rgb: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    share = alpha[..., None] / 255
    return rgb * share + 255 * (1 - share)


def decode(data: bytes, **settings: bool) -> np.ndarray:
    image = Decoder(Decode(**settings)).decode(data)
    assert image.dtype == np.uint8
    assert image.ndim == 3
    assert image.shape[2] == 3
    assert image.flags.c_contiguous
    assert image.flags.writeable
    return image


@pytest.mark.parametrize("data", [
    encoded(PHOTO, "JPEG"),
    encoded(PHOTO, "JPEG", progressive=True),
    encoded(PHOTO, "PNG"),
    encoded(PHOTO, "BMP"),
    encoded(PHOTO, "WEBP"),
    encoded(PHOTO, "WEBP", lossless=True),
    encoded(PICTURE.quantize(64), "GIF"),
    encoded(PICTURE.quantize(64), "PNG"),
    encoded(PICTURE.quantize(64), "BMP"),
    encoded(PICTURE.convert("1"), "PNG"),
    encoded(PICTURE.convert("1"), "BMP"),
    encoded(PICTURE.convert("L"), "JPEG"),
    encoded(PICTURE.convert("L"), "PNG"),
    encoded(PICTURE.convert("L"), "GIF"),
])  # fmt: skip
def test_opaque_images_are_what_pillow_makes_of_them(data: bytes) -> None:
    assert np.array_equal(decode(data), reference(data))


def test_the_format_is_that_of_the_content() -> None:
    truth = encoded(PHOTO, "PNG")
    assert np.array_equal(decode(memoryview(truth)), PHOTO)
    assert np.array_equal(decode(bytearray(truth)), PHOTO)


def test_cmyk_jpeg_is_taken_as_inverted() -> None:
    data = encoded(PICTURE.convert("CMYK"), "JPEG", quality=95)
    assert np.array_equal(decode(data), reference(data))
    assert np.abs(decode(data).astype(int) - PHOTO).mean() < 12


def test_ycck_jpeg() -> None:
    data = encoded(PICTURE.convert("CMYK"), "JPEG", quality=95)
    adobe = data.index(b"Adobe")
    data = data[: adobe + 11] + b"\x02" + data[adobe + 12 :]  # its four components are YCCK from now on
    assert np.array_equal(decode(data), reference(data))


def test_jpeg_stored_as_rgb() -> None:
    data = encoded(PHOTO, "JPEG", quality=95, keep_rgb=True)
    assert np.array_equal(decode(data), reference(data))
    assert np.abs(decode(data).astype(int) - PHOTO).mean() < 12


def test_alpha_is_laid_over_white() -> None:
    alpha = PHOTO[..., 2]
    rgba = np.dstack([PHOTO, alpha])
    for data in (encoded(rgba, "PNG"), encoded(rgba, "WEBP", lossless=True, exact=True)):
        assert np.abs(decode(data) - over_white(PHOTO, alpha)).max() <= 1
    la = encoded(Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(alpha)]), "PNG")
    assert np.abs(decode(la) - over_white(as_rgb(GREY), alpha)).max() <= 1


def test_transparent_palette_entries_become_white() -> None:
    indices = np.arange(12, dtype=np.uint8).reshape(3, 4) % 3
    palette = np.array([[10, 20, 30], [200, 0, 0], [0, 0, 100]], np.uint8)
    transparency = chunk(b"PLTE", palette.tobytes()) + chunk(b"tRNS", bytes([255, 0, 128]))
    expected = over_white(palette[indices], np.array([255, 0, 128])[indices])
    assert np.abs(decode(png(indices, 8, 3, before=transparency)) - expected).max() <= 1


def test_transparent_colour_of_gif_becomes_white() -> None:
    image = PICTURE.quantize(16)
    data = encoded(image, "GIF", transparency=3)
    clear = np.asarray(opened(data)) == 3
    assert 0 < clear.sum() < clear.size
    assert np.array_equal(decode(data)[clear], np.full((clear.sum(), 3), 255))
    assert np.array_equal(decode(data)[~clear], reference(data)[~clear])


def test_transparent_grey_and_colour_become_white() -> None:
    key = chunk(b"tRNS", struct.pack(">H", int(GREY[0, 0])))
    assert np.array_equal(decode(png(GREY, 8, 0, before=key)), as_rgb(np.where(GREY[0, 0] == GREY, 255, GREY)))
    key = chunk(b"tRNS", struct.pack(">HHH", *PHOTO[0, 0]))
    clear = (PHOTO[0, 0] == PHOTO).all(axis=2, keepdims=True)
    assert np.array_equal(decode(png(PHOTO, 8, 2, before=key)), np.where(clear, 255, PHOTO))


def test_sixteen_bits_are_scaled_not_clipped() -> None:
    deep_rgb = np.dstack([DEEP, DEEP // 2, 65535 - DEEP])
    assert np.array_equal(decode(png(DEEP, 16, 0)), as_rgb(DEEP >> 8))
    assert np.array_equal(decode(png(deep_rgb, 16, 2)), deep_rgb >> 8)
    alpha = np.full_like(DEEP, 65535)
    assert np.array_equal(decode(png(np.dstack([deep_rgb, alpha]), 16, 6)), deep_rgb >> 8)
    assert np.array_equal(decode(png(np.dstack([DEEP, alpha]), 16, 4)), as_rgb(DEEP >> 8))


def test_sixteen_bit_grey_with_a_transparent_value() -> None:
    key = chunk(b"tRNS", struct.pack(">H", int(DEEP[0, 0])))
    expected = np.where(DEEP[0, 0] == DEEP, 255, DEEP >> 8)
    assert np.array_equal(decode(png(DEEP, 16, 0, before=key)), as_rgb(expected))


@pytest.mark.parametrize("image", [
    PICTURE,
    PICTURE.convert("L"),
    PICTURE.convert("1"),
    PICTURE.convert("CMYK"),
    PICTURE.quantize(32),
])  # fmt: skip
def test_tiff(image: Image.Image) -> None:
    data = encoded(image, "TIFF")
    assert np.array_equal(decode(data, tiff=True), reference(data))


def test_deep_tiff_is_scaled() -> None:
    assert np.array_equal(decode(encoded(DEEP, "TIFF"), tiff=True), as_rgb(DEEP >> 8))
    low, high = int(DEEP.min()), int(DEEP.max())
    stretched = ((DEEP.astype(float) - low) * (255 / (high - low))).astype(np.uint8)
    assert np.array_equal(decode(encoded(DEEP.astype(np.int32), "TIFF"), tiff=True), as_rgb(stretched))
    assert np.array_equal(decode(encoded(DEEP.astype(np.float32), "TIFF"), tiff=True), as_rgb(stretched))


def test_float_tiff_with_values_that_are_no_numbers() -> None:
    values = np.array([[0, 1, 2, np.nan, np.inf, -np.inf]], np.float32)
    got = decode(encoded(values, "TIFF"), tiff=True)
    assert got[0, :, 0].tolist() == [0, 127, 255, 0, 255, 0]
    assert decode(encoded(np.full((2, 3), np.nan, np.float32), "TIFF"), tiff=True).max() == 0
    assert decode(encoded(np.full((2, 3), 7, np.float32), "TIFF"), tiff=True).max() == 0


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame(format: str) -> None:
    frames = [Image.fromarray(PHOTO[:, ::step]).resize((64, 48)).quantize(16) for step in (1, -1)]
    data = encoded(frames[0].convert("RGB"), format, save_all=True, append_images=[frames[1].convert("RGB")])
    assert opened(data).n_frames == 2
    assert np.array_equal(decode(data), reference(data))


def test_choose_is_called_once_with_the_size_and_gets_its_region() -> None:
    asked: list[tuple[int, int]] = []

    def choose(width: int, height: int) -> Region:
        asked.append((width, height))
        return Region(5, 7, 30, 20, 30, 20)

    for data in (encoded(PHOTO, "JPEG"), encoded(PHOTO, "PNG"), encoded(PHOTO, "WEBP")):
        assert np.array_equal(Decoder().decode(data, choose), reference(data)[7:27, 5:35])
    assert asked == [(64, 48)] * 3


def test_choose_comes_before_the_first_pixel() -> None:
    truncated = encoded(PHOTO, "JPEG")[:-200], encoded(PHOTO, "PNG")[:-200], encoded(PHOTO, "BMP")[:-200]
    for data in truncated:
        sizes: list[tuple[int, int]] = []

        def choose(width: int, height: int, sizes: list[tuple[int, int]] = sizes) -> Region:
            sizes.append((width, height))
            return Region(0, 0, 1, 1, 1, 1)

        with pytest.raises(DecodeError):
            Decoder().decode(data, choose)
        assert sizes == [(64, 48)]


def test_what_choose_raises_comes_out_unchanged() -> None:
    error = OSError("image file is truncated")

    def choose(width: int, height: int) -> Region:
        raise error

    with pytest.raises(OSError, match="image file is truncated") as caught:
        Decoder().decode(encoded(PHOTO, "JPEG"), choose)
    assert caught.value is error


@pytest.mark.parametrize("region", [(-1, 0, 4, 4), (0, 0, 65, 4), (0, 45, 4, 4), (0, 0, 0, 4), (0, 0, 4, -4)])
def test_a_region_outside_the_image_is_refused(region: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"choose\(64, 48\): expected a region inside the image"):
        Decoder().decode(encoded(PHOTO, "JPEG"), lambda width, height: Region(*region, 1, 1))


def test_a_region_of_floats_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a Region of integers"):
        Decoder().decode(encoded(PHOTO, "JPEG"), lambda width, height: Region(0.5, 0, 4, 4, 1, 1))  # type: ignore[arg-type]


def test_numpy_integers_make_a_region() -> None:
    four = np.int64(4)
    image = Decoder().decode(encoded(PHOTO, "PNG"), lambda width, height: Region(four, four, four, four, 1, 1))
    assert np.array_equal(image, PHOTO[4:8, 4:8])


def test_anything_but_bytes_is_misuse() -> None:
    with pytest.raises(TypeError):
        Decoder().decode("photo.jpg")  # type: ignore[arg-type]


def test_data_may_be_released_after_the_call() -> None:
    for format in ("JPEG", "PNG", "WEBP"):
        data = bytearray(encoded(PHOTO, format))
        view = memoryview(data)
        Decoder().decode(view)
        view.release()
        data.clear()  # raises BufferError while anything still refers to it


def test_decoding_leaves_pillows_settings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert decode(encoded(PHOTO, "PNG")).shape == (48, 64, 3)  # our limit counts, and nothing warns
    assert Image.MAX_IMAGE_PIXELS == 100
