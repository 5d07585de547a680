"""The three JPEG codecs give the same pixels, and accept and refuse the same files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from decode_samples import (
    BACKENDS,
    LIBJPEG_BACKENDS,
    encoded,
    photo,
    reference,
    with_segment,
    with_size,
    without_segments,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from asyncload.decode import Backend, Decode, Decoder, PillowJpeg, SimpleJpeg
from asyncload.errors import DecodeError

PHOTO = photo()
JPEG = encoded(PHOTO, "JPEG")
PROGRESSIVE = encoded(PHOTO, "JPEG", progressive=True)
SCAN = JPEG.index(b"\xff\xda")

every_backend = pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
every_libjpeg = pytest.mark.parametrize("make", LIBJPEG_BACKENDS.values(), ids=LIBJPEG_BACKENDS)


def outcome(decoder: Decoder, data: bytes) -> np.ndarray | str:
    try:
        return decoder.decode(data).copy()
    except DecodeError as error:
        return error.reason


@every_backend
@pytest.mark.parametrize("data", [
    encoded(PHOTO, "JPEG", quality=95, subsampling="4:4:4"),
    encoded(PHOTO, "JPEG", quality=95, subsampling="4:2:2"),
    encoded(PHOTO, "JPEG", quality=95, subsampling="4:2:0"),
    encoded(PHOTO[:37, :41], "JPEG", quality=30),
    encoded(PHOTO, "JPEG", restart_marker_blocks=2),
    encoded(PHOTO, "JPEG", keep_rgb=True),
    encoded(PHOTO[..., 0], "JPEG"),
    encoded(PHOTO[:1, :1], "JPEG"),
    PROGRESSIVE,
])  # fmt: skip
def test_the_same_pixels(make: Callable[[], Backend], data: bytes) -> None:
    # All are libjpeg-turbo here; a Pillow that was built with another libjpeg may be off by 1.
    assert np.abs(Decoder(backend=make()).decode(data).astype(int) - reference(data)).max() <= 1


@every_backend
def test_read_only_and_writable_memory(make: Callable[[], Backend]) -> None:
    decoder = Decoder(backend=make())
    for data in (JPEG, bytearray(JPEG), memoryview(JPEG), memoryview(b"before" + JPEG)[6:]):
        assert np.array_equal(decoder.decode(data), reference(JPEG))


@every_libjpeg
def test_the_memory_of_a_picture_is_that_of_the_next(make: Callable[[], Backend]) -> None:
    decoder = Decoder(backend=make())
    first = decoder.decode(JPEG)
    assert np.shares_memory(first, decoder.decode(PROGRESSIVE))


@pytest.mark.parametrize("data", [
    pytest.param(JPEG[:-2] + b"\x12\x34\x56" + JPEG[-2:], id="surplus bytes before the end"),
    pytest.param(JPEG[:20] + b"\0\0\0" + JPEG[20:], id="surplus bytes in the header"),
    pytest.param(JPEG[:SCAN] + b"\xff\xff\xff" + JPEG[SCAN:], id="fill bytes"),
    pytest.param(JPEG[:11] + b"\x09" + JPEG[12:], id="unknown JFIF revision"),
    pytest.param(JPEG + b"appended" * 100, id="something appended"),
    pytest.param(with_segment(JPEG, b"Adobe\0\x64\0\0\0\0\x07", 0xEE), id="unknown Adobe transform"),
    pytest.param(PROGRESSIVE[:-2] + b"\x12\x34" + PROGRESSIVE[-2:], id="surplus bytes in a progressive one"),
])  # fmt: skip
@every_backend
def test_harmless_oddities_are_accepted(make: Callable[[], Backend], data: bytes) -> None:
    assert np.array_equal(Decoder(backend=make()).decode(data), reference(data))


@every_backend
def test_every_truncated_file_is_refused(make: Callable[[], Backend]) -> None:
    decoder = Decoder(backend=make())
    for data in (JPEG, PROGRESSIVE):
        whole = decoder.decode(data).copy()
        for length in range(3, len(data), 7):
            got = outcome(decoder, data[:length])
            assert isinstance(got, str) or np.array_equal(got, whole), length
            assert not isinstance(got, str) or got == "truncated", length


@every_libjpeg
def test_a_scan_that_ends_early_is_refused(make: Callable[[], Backend]) -> None:
    for data in (JPEG, PROGRESSIVE):
        cut = data[: len(data) * 4 // 5] + b"\xff\xd9"  # with an end marker, as some servers repair files
        assert outcome(Decoder(backend=make()), cut) == "truncated"


@every_libjpeg
def test_a_scan_of_nonsense_is_refused(make: Callable[[], Backend]) -> None:
    no_code = JPEG[: SCAN + 100] + b"\xff\0" * 100 + b"\xff\xd9"  # ones without end, which no Huffman code is
    restarts = encoded(PHOTO, "JPEG", restart_marker_blocks=2)
    wrong_restart = restarts.replace(b"\xff\xd1", b"\xff\xd5", 1)
    for data, text in ((no_code, "bad Huffman code"), (wrong_restart, "found marker 0xd5 instead of RST1")):
        assert reference(data).shape == PHOTO.shape  # Pillow does not mind
        with pytest.raises(DecodeError, match=text) as caught:
            Decoder(backend=make()).decode(data)
        assert caught.value.reason == "corrupt"


@every_libjpeg
def test_an_early_end_behind_a_harmless_warning_is_refused(make: Callable[[], Backend]) -> None:
    odd = JPEG[:11] + b"\x09" + JPEG[12:]
    assert outcome(Decoder(backend=make()), odd[:-100]) == "truncated"


@every_backend
def test_a_missing_table_is_not_taken_from_the_last_picture(make: Callable[[], Backend]) -> None:
    decoder = Decoder(backend=make())
    decoder.decode(JPEG)
    assert outcome(decoder, without_segments(JPEG, 0xDB)) == "corrupt"


@every_backend
def test_two_frame_headers_do_not_agree(make: Callable[[], Backend]) -> None:
    frame = JPEG.index(b"\xff\xc0")
    larger = with_size(JPEG, 2000, 1000)
    data = JPEG[: frame + 19] + larger[frame : frame + 19] + JPEG[frame + 19 :]
    assert outcome(Decoder(backend=make()), data) == "corrupt"


@settings(deadline=None, max_examples=150)
@given(st.integers(2, len(JPEG) - 1), st.binary(min_size=1, max_size=4), st.booleans())
def test_a_damaged_file_fares_the_same(at: int, damage: bytes, progressive: bool) -> None:
    data = PROGRESSIVE if progressive else JPEG
    data = data[:at] + damage + data[at + len(damage) :]
    outcomes = [outcome(Decoder(Decode(max_pixels=10**6), backend=make()), data) for make in LIBJPEG_BACKENDS.values()]
    refusals = [isinstance(got, str) for got in outcomes]
    assert all(refusals) or not any(refusals)
    # What a progressive file lacks is guessed from its surroundings, and versions of libjpeg-turbo guess differently.
    assert progressive or any(refusals) or all(np.array_equal(got, outcomes[0]) for got in outcomes)


def test_what_one_codec_cannot_decode_another_may() -> None:
    class Failing:
        name = version = "failing"

        def decode(self, data: memoryview, pixels: np.ndarray, /) -> str:
            raise RuntimeError("not today")

    assert np.array_equal(Decoder(backend=Failing()).decode(JPEG), reference(JPEG))
    with pytest.raises(DecodeError, match="RuntimeError: not today"):
        Decoder(backend=Failing()).decode(without_segments(JPEG, 0xDB))


@every_backend
def test_tolerated(make: Callable[[], Backend]) -> None:
    decoder = Decoder(Decode(tolerate_truncated=True), backend=make())
    whole = decoder.decode(JPEG).copy()
    assert np.array_equal(whole, reference(JPEG))
    half = decoder.decode(JPEG[: (SCAN + len(JPEG)) // 2]).copy()
    assert half.shape == whole.shape
    assert np.array_equal(half[:12], whole[:12])
    assert not np.array_equal(half[-8:], whole[-8:])

    whole = decoder.decode(PROGRESSIVE).copy()
    for length in range(PROGRESSIVE.index(b"\xff\xda", len(PROGRESSIVE) // 2), len(PROGRESSIVE), 5):
        coarse = decoder.decode(PROGRESSIVE[:length])
        assert np.abs(coarse.astype(int) - whole).mean() < 30, length

    cmyk = encoded(Image.fromarray(PHOTO).convert("CMYK"), "JPEG")
    whole = decoder.decode(cmyk).copy()
    assert np.array_equal(decoder.decode(cmyk[:-300])[:12], whole[:12])
    with pytest.raises(DecodeError):
        decoder.decode(JPEG[: SCAN - 5])


@every_libjpeg
def test_a_scan_that_ends_early_is_tolerated(make: Callable[[], Backend]) -> None:
    decoder = Decoder(Decode(tolerate_truncated=True), backend=make())
    whole = decoder.decode(JPEG).copy()
    cut = decoder.decode(JPEG[: len(JPEG) * 4 // 5] + b"\xff\xd9")
    assert np.array_equal(cut[:12], whole[:12])


def test_simplejpeg_does_not_pass_off_what_it_left_undone() -> None:
    pixels = np.zeros_like(PHOTO)
    with pytest.raises(ValueError, match="Warning: unknown JFIF revision"):
        SimpleJpeg().decode(memoryview(JPEG[:11] + b"\x09" + JPEG[12:]), pixels)


@every_backend
def test_nothing_of_the_last_picture_shows_in_the_next(make: Callable[[], Backend]) -> None:
    decoder = Decoder(Decode(tolerate_truncated=True), backend=make())
    for length in range(SCAN, len(JPEG), 11):
        decoder.decode(encoded(np.zeros_like(PHOTO), "JPEG"))
        after_black = outcome(decoder, JPEG[:length])
        decoder.decode(encoded(np.full_like(PHOTO, 255), "JPEG"))
        assert np.array_equal(after_black, outcome(decoder, JPEG[:length]))


def test_backends_say_who_they_are() -> None:
    import simplejpeg

    assert (SimpleJpeg().name, SimpleJpeg().version) == ("simplejpeg", simplejpeg.__version__)
    assert PillowJpeg().name == "Pillow"
