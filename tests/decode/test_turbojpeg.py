"""Finding libturbojpeg, and what it says when something is wrong."""

from __future__ import annotations

import contextlib
import ctypes.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from decode_samples import encoded, photo, reference, turbojpeg, with_size

from asyncload import decode
from asyncload.decode import Decoder, TurboJpeg, codecs
from asyncload.decode.turbojpeg import TurboJpegError, library_names

JPEG = encoded(photo(), "JPEG")


def pixels(height: int = 48, width: int = 64) -> np.ndarray:
    return np.zeros((height, width, 3), np.uint8)


def test_decode() -> None:
    image = pixels()
    assert turbojpeg().decode(memoryview(JPEG), image) == ""
    assert np.array_equal(image, reference(JPEG))


def test_a_warning_is_returned_and_the_picture_decoded_on() -> None:
    image = pixels()
    assert turbojpeg().decode(memoryview(JPEG[:-100]), image) == "Premature end of JPEG file"
    assert image[:16].any()
    odd = JPEG[:11] + b"\x09" + JPEG[12:]
    assert turbojpeg().decode(memoryview(odd), image).startswith("Warning: unknown JFIF revision number 9.")


def test_an_error_has_the_text_of_the_library() -> None:
    with pytest.raises(TurboJpegError, match="Not a JPEG file: starts with 0x6e 0x6f"):
        turbojpeg().decode(memoryview(b"no JPEG"), pixels())
    with pytest.raises(TurboJpegError, match="Unsupported JPEG process: SOF type 0xc5"):
        turbojpeg().decode(memoryview(JPEG.replace(b"\xff\xc0", b"\xff\xc5")), pixels())


def test_an_error_after_a_warning_is_an_error() -> None:
    odd = JPEG[:11] + b"\x09" + JPEG[12:]
    tables = odd.index(b"\xff\xdb")
    with pytest.raises(TurboJpegError, match="Bogus DQT index"):
        turbojpeg().decode(memoryview(odd[: tables + 4] + b"\x0f" + odd[tables + 5 :]), pixels())


def test_no_memory_is_lost() -> None:
    codec, image, process = turbojpeg(), pixels(8, 8), psutil.Process()
    small, nothing = memoryview(encoded(photo(8, 8), "JPEG")), memoryview(b"no JPEG")
    before = process.memory_info().rss
    for _ in range(10_000):  # a handle takes 4 KB
        codec.decode(small, image)
        with contextlib.suppress(TurboJpegError):
            codec.decode(nothing, image)
    assert process.memory_info().rss - before < 20_000_000


@pytest.mark.parametrize("shape", [(47, 64), (48, 63), (48, 65), (64, 48)])
def test_it_never_writes_beyond_its_memory(shape: tuple[int, int]) -> None:
    image = pixels(*shape)
    with pytest.raises(TurboJpegError, match=r"expected \d+x\d+ pixels from the frame header, got \(64, 48\)"):
        turbojpeg().decode(memoryview(JPEG), image)
    with pytest.raises(TurboJpegError, match=r"got \(4000, 3000\)"):
        turbojpeg().decode(memoryview(with_size(JPEG, 4000, 3000)), image)
    assert not image.any()


def test_the_first_library_that_serves_is_taken() -> None:
    where = turbojpeg().where
    assert TurboJpeg(["/no/such/libturbojpeg.so", where, "/never/reached.so"]).where == where


def test_no_library() -> None:
    with pytest.raises(OSError, match="no libturbojpeg was found; pip install turbojpeg"):
        TurboJpeg(["/no/such/libturbojpeg.so"])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a C library with a name")
def test_an_old_library() -> None:
    libc = ctypes.util.find_library("c")
    assert libc is not None
    with pytest.raises(OSError, match=f"{libc} is older than version 3; pip install turbojpeg"):
        TurboJpeg([libc])


def test_the_wheel_is_found_without_being_imported() -> None:
    wheel = pytest.importorskip("turbojpeg")
    script = "import sys; from asyncload.decode.turbojpeg import library_names as n; print(*n(), sep='\\n'); "
    script += "assert 'turbojpeg' not in sys.modules"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    folder = Path(wheel.__file__).parent
    assert any(Path(name).is_relative_to(folder) for name in found.splitlines())


def test_the_systems_comes_first() -> None:
    assert next(library_names()).startswith("libturbojpeg.so")


def test_what_codecs_says(monkeypatch: pytest.MonkeyPatch) -> None:
    where = turbojpeg().where
    said = codecs()
    assert (said.jpeg, said.turbojpeg) == ("TurboJPEG", where)
    assert said.jpeg_version.startswith("3.")
    assert said.webp is True

    monkeypatch.setattr("asyncload.decode.turbojpeg.library_names", lambda: iter(()))
    said = codecs()
    assert said.jpeg == "simplejpeg"
    assert "no libturbojpeg was found" in said.turbojpeg
    assert np.array_equal(Decoder().decode(JPEG), reference(JPEG))

    monkeypatch.setitem(sys.modules, "simplejpeg", None)  # makes its import fail
    said = codecs()
    assert (said.jpeg, said.jpeg_version) == ("Pillow", said.pillow)
    assert np.array_equal(Decoder().decode(JPEG), reference(JPEG))


def test_importing_the_decoder_imports_nothing_heavy() -> None:
    script = (
        "import sys, asyncload.decode as d; d.Decoder(); "
        "print([m for m in ('aiohttp', 'torch', 'cv2', 'asyncio', 'importlib.metadata') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_public_names_are_sorted_and_there() -> None:
    assert decode.__all__ == sorted(decode.__all__)
    assert all(hasattr(decode, name) for name in decode.__all__)
