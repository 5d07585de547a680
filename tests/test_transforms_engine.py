"""Both engines: where pixels land, how near OpenCV's come to Pillow's, and life without OpenCV."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image as PillowImage

from asyncload.transforms import pillow
from asyncload.transforms.engine import engine, resize

ENGINES = [pillow] if engine is pillow else [pillow, engine]
with_opencv = pytest.mark.skipif(engine is pillow, reason="opencv-python-headless is not installed")
each_engine = pytest.mark.parametrize("pixel_engine", ENGINES, ids=lambda module: module.__name__.split(".")[-1])


def photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Detail at all scales, its strength falling with its size as in photographs, and some hard edges."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for cells in (3, 9, 27, 81, 243):
        coarse = PillowImage.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        total += np.asarray(coarse.resize((width, height), PillowImage.Resampling.BICUBIC), float) / cells**0.3
    total = (total - total.min()) / np.ptp(total) * 255
    total[height // 3 : height // 2, width // 4 : width // 3] = 230
    return total.astype(np.uint8)


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((one.astype(float) - other) ** 2)))


@each_engine
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("source", "target"), [(100, 224), (224, 224), (375, 256), (447, 224), (671, 224), (673, 224), (999, 130)]
)
def test_an_edge_lands_where_the_scale_puts_it(pixel_engine: Any, axis: int, source: int, target: int) -> None:
    # Each row is black up to an edge of its own and white from there; across the rows nothing is resized. The rows are
    # shuffled, for in a staircase a shift across it would undo one along it. Half a pixel of the source is
    # target / source / 2 of the result's, 0.065 at the least.
    edges = np.arange(12, source - 12)
    shuffled = np.random.default_rng(0).permutation(edges)
    steps = np.where(np.arange(source) >= shuffled[:, None], 255, 0).astype(np.uint8)
    image = np.repeat(steps[:, :, None], 3, axis=2)
    if axis == 0:
        resized = pixel_engine.resize(image.transpose(1, 0, 2), len(edges), target).transpose(1, 0, 2)
    else:
        resized = pixel_engine.resize(image, target, len(edges))
    landed = target - resized[np.argsort(shuffled), :, 0].sum(axis=1) / 255
    errors = landed - edges * (target / source)
    for part in np.array_split(errors, 3):  # a wrong scale is wrong in opposite directions at the two ends
        assert abs(part.mean()) < 0.03


@each_engine
@settings(max_examples=60, deadline=None)
@given(st.tuples(*[st.integers(1, 90)] * 4), st.integers(0, 255))
@example((97, 97, 8, 8), 100)  # three halvings of odd lengths leave OpenCV with nine columns
def test_any_size_becomes_any_other_and_a_plain_colour_stays(
    pixel_engine: Any, sizes: tuple[int, int, int, int], level: int
) -> None:
    height, width, new_height, new_width = sizes
    resized = pixel_engine.resize(np.full((height, width, 3), level, np.uint8), new_width, new_height)
    assert resized.shape == (new_height, new_width, 3)
    assert resized.dtype == np.uint8
    assert resized.flags.c_contiguous
    assert resized.flags.writeable
    assert (resized == level).all()


@each_engine
@pytest.mark.parametrize("shape", [(1, 5000), (5000, 1), (2, 40_000)])
def test_a_strip_can_be_resized(pixel_engine: Any, shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    resized = pixel_engine.resize(image, 224, 224)
    assert resized.shape == (224, 224, 3)
    assert abs(resized.mean() - image.mean()) < 3


@with_opencv
@pytest.mark.parametrize(
    ("height", "width"),
    [(100, 150), (224, 300), (260, 320), (375, 500), (447, 611), (700, 665), (1201, 1603), (90, 900)],
)
def test_opencv_resizes_nearly_as_pillow_does(height: int, width: int) -> None:
    image = photo(height, width)
    assert psnr(engine.resize(image, 224, 224), pillow.resize(image, 224, 224)) > 47  # INTER_LINEAR has 38


@each_engine
@pytest.mark.parametrize("side", [500, 560, 600, 670, 700, 1500])
def test_what_is_too_fine_for_the_result_turns_grey(pixel_engine: Any, side: int) -> None:
    chequered = np.where(np.indices((side, side)).sum(axis=0) % 2, 255, 0).astype(np.uint8)
    resized = pixel_engine.resize(np.repeat(chequered[:, :, None], 3, axis=2), 224, 224)
    assert resized.std() < 6  # INTER_LINEAR keeps 31 to 42


@with_opencv
def test_opencv_resizes_the_same_whatever_its_threads_and_the_layout() -> None:
    import cv2

    image = photo(600, 800)
    before = cv2.getNumThreads()
    try:
        results = []
        for threads in (1, 2, 4):
            cv2.setNumThreads(threads)
            results.append(engine.resize(image[50:550, 31:790], 224, 224))
        results.append(engine.resize(image[50:550, 31:790].copy(), 224, 224))
    finally:
        cv2.setNumThreads(before)
    assert all((result == results[0]).all() for result in results)


@each_engine
def test_mirror_exchanges_left_and_right(pixel_engine: Any) -> None:
    image = photo(5, 8)
    mirrored = pixel_engine.mirror(image[:, 1:])
    np.testing.assert_array_equal(mirrored, image[:, :0:-1])
    assert mirrored.flags.c_contiguous
    assert mirrored.base is not image


@each_engine
def test_mix_multiplies_adds_rounds_and_clips(pixel_engine: Any) -> None:
    image = photo(40, 50)
    matrix = np.array([[1.3, -0.2, 0.1, 4.2], [0.3, 0.9, 0.0, -20.7], [0.0, 0.5, 0.25, 0.0]])
    exact = image @ matrix[:, :3].T + matrix[:, 3]
    assert exact.min() < 0
    assert exact.max() > 255
    error = pixel_engine.mix(image, matrix) - np.clip(exact, 0, 255)
    assert np.abs(error).max() < 0.7  # OpenCV computes with ten binary places
    assert abs(error.mean()) < 0.1


@with_opencv
def test_a_resize_that_opencv_does_not_have_is_pillows() -> None:
    image = photo(90, 120)
    for interpolation in ("nearest", "box", "hamming", "bicubic", "lanczos"):
        np.testing.assert_array_equal(resize(image, 50, 60, interpolation), pillow.resize(image, 50, 60, interpolation))


def test_without_opencv_pillow_does_it_all() -> None:
    script = """
import sys
sys.modules["cv2"] = None  # what makes an import fail as if nothing were installed
import numpy as np
from asyncload import transforms
image = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
steps = [transforms.imagenet_train(64), transforms.ColorJitter(0.4, 0.4, 0.4, 0.1), transforms.Lighting()]
result = transforms.Compose(steps)(image, np.random.default_rng(0))
assert result.shape == (64, 64, 3) and result.dtype == np.uint8, result
from asyncload.transforms import engine, pillow
assert engine.engine is pillow
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=60)
