"""Colours against Pillow, the published formulas, and plain arithmetic."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image as PillowImage
from PIL import ImageEnhance

from asyncload import transforms as T  # noqa: N812 (the field's own abbreviation)
from asyncload.transforms import pillow
from asyncload.transforms.engine import engine

ENGINES = [pillow] if engine is pillow else [pillow, engine]
each_engine = pytest.mark.parametrize("pixel_engine", ENGINES, ids=lambda module: module.__name__.split(".")[-1])

COLOURS = np.random.default_rng(0).integers(0, 256, (60, 70, 3), dtype=np.uint8)
FACTORS = (0.0, 0.37, 0.8, 1.0, 1.25, 1.9)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    ("parameter", "enhance"),
    [("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast), ("saturation", ImageEnhance.Color)],
)
def test_color_jitter_does_what_pillow_does(
    parameter: str, enhance: Callable[[PillowImage.Image], Any], factor: float
) -> None:
    ours = T.ColorJitter(**{parameter: (factor, factor)})(COLOURS, rng())
    theirs = np.asarray(enhance(PillowImage.fromarray(COLOURS)).enhance(factor), int)
    assert ours.dtype == np.uint8
    assert np.abs(ours - theirs).max() <= 2  # they truncate, we round


def reference_hue(image: np.ndarray, turn: float) -> np.ndarray:
    pixels = [colorsys.rgb_to_hsv(*pixel) for pixel in image.reshape(-1, 3) / 255]
    turned = [colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value) for hue, saturation, value in pixels]
    return np.reshape(turned, image.shape) * 255


@each_engine
@pytest.mark.parametrize("turn", [-0.5, -0.21, -0.03, 0.1, 0.33, 0.5])
def test_the_hue_turns_by_a_part_of_the_circle(pixel_engine: Any, turn: float) -> None:
    error = pixel_engine.turn_hue(COLOURS, turn) - reference_hue(COLOURS, turn)
    assert np.abs(error).max() <= 6  # hues have eight bits here, and one step of them is six levels
    assert np.abs(error).mean() < 0.6


def test_color_jitter_turns_the_hue() -> None:
    ours = T.ColorJitter(hue=(0.2, 0.2))(COLOURS, rng())
    np.testing.assert_array_equal(ours, engine.turn_hue(COLOURS, 0.2))


def test_color_jitter_draws_factors_from_their_ranges() -> None:
    grey = np.full((1, 1, 3), 100, np.uint8)
    generator = rng()
    for given, least, most in ((0.4, 60, 140), ((0.5, 0.9), 50, 90), (1.7, 0, 255)):
        jitter = T.ColorJitter(brightness=given)
        levels = np.array([jitter(grey, generator)[0, 0, 0] for _ in range(800)], int)
        span = most - least
        assert least <= levels.min() < least + span * 0.03
        assert most >= levels.max() > most - span * 0.03
        if most < 255:
            assert abs(levels.mean() - (least + most) / 2) < span * 0.05


def test_color_jitter_has_no_factor_below_0() -> None:
    assert repr(T.ColorJitter(0.25, 1.5, 0, 0.5)) == (
        "ColorJitter(brightness=(0.75, 1.25), contrast=(0.0, 2.5), saturation=(1.0, 1.0), hue=(-0.5, 0.5))"
    )


def test_color_jitter_changes_things_in_every_order() -> None:
    # Contrast 0 makes all grey: after it brightness 2 doubles the mean; before it, what was clipped lowers the mean.
    image = np.array([[[0, 0, 0], [200, 200, 200]]], np.uint8)
    jitter = T.ColorJitter(brightness=(2, 2), contrast=(0, 0))
    results = [int(jitter(image, rng(seed))[0, 0, 0]) for seed in range(400)]
    assert set(results) == {128, 200}
    assert 140 < results.count(128) < 260


def test_color_jitter_of_nothing_returns_the_image_itself() -> None:
    assert T.ColorJitter()(COLOURS, rng()) is COLOURS


def test_switching_one_jitter_off_leaves_the_others_alone() -> None:
    grey = np.full((1, 1, 3), 100, np.uint8)  # on which hue and saturation have no effect
    for seed in range(10):
        np.testing.assert_array_equal(
            T.ColorJitter(brightness=0.4)(grey, rng(seed)), T.ColorJitter(0.4, 0, 0.4, 0.5)(grey, rng(seed))
        )


def test_lighting_adds_a_colour_along_the_principal_components() -> None:
    eigval = np.array([0.2175, 0.0188, 0.0045])
    eigvec = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
    image = COLOURS // 2 + 64
    for seed in range(20):
        alpha = rng(seed).normal(0, 0.5, 3)
        colour = sum(alpha[j] * eigval[j] * eigvec[:, j] for j in range(3))
        ours = T.Lighting(0.5)(image, rng(seed))
        assert ours.dtype == np.uint8
        assert np.abs(ours - np.clip(image + 255 * colour, 0, 255)).max() < 0.7
        floats = T.Lighting(0.5, eigval, eigvec)(T.ToFloat()(image, rng()), rng(seed))
        assert floats.dtype == np.float32
        np.testing.assert_allclose(floats, image / 255 + colour, atol=1e-6)


def test_lighting_clips_and_does_not_wrap_around() -> None:
    for level in (0, 255):
        image = np.full((2, 2, 3), level, np.uint8)
        results = [T.Lighting(1.0)(image, rng(seed)) for seed in range(50)]
        assert max(np.abs(result.astype(int) - level).max() for result in results) < 220
        assert any((result == level).all() for result in results)


def test_to_float_is_a_255th() -> None:
    floats = T.ToFloat()(COLOURS, rng())
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(floats, COLOURS.astype(np.float32) / np.float32(255))
    with pytest.raises(TypeError, match="ToFloat: expected a uint8 image"):
        T.ToFloat()(floats, rng())


def test_normalize_takes_bytes_or_floats_from_0_to_1() -> None:
    expected = (COLOURS / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    for image in (COLOURS, COLOURS[:, ::-1][:, ::-1], T.ToFloat()(COLOURS, rng()), COLOURS / 255):
        normalized = T.Normalize()(image, rng())
        assert normalized.dtype == np.float32
        np.testing.assert_allclose(normalized, expected, atol=1e-5)
    own = T.Normalize(np.array([0.5, 0.25, 0.0]), [1, 2, 4])(COLOURS, rng())
    np.testing.assert_allclose(own, (COLOURS / 255 - (0.5, 0.25, 0.0)) / (1, 2, 4), atol=1e-6)


@pytest.mark.parametrize("transform", [T.Normalize(), T.Lighting(), T.ColorJitter(0.4)])
@pytest.mark.parametrize("image", [np.zeros((4, 4, 3), np.int64), np.zeros((4, 4), np.uint8)])
def test_other_arrays_are_refused(transform: Any, image: np.ndarray) -> None:
    with pytest.raises(TypeError, match=rf"{type(transform).__name__}: expected a uint8 image"):
        transform(image, rng())


@pytest.mark.parametrize(
    "transform", [T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.Lighting(), T.Normalize(), T.ToFloat()], ids=repr
)
def test_the_input_is_left_as_it_was_and_the_result_repeats(transform: Any) -> None:
    before = COLOURS.copy()
    results = [transform(COLOURS, rng(seed)) for seed in (3, 4, 3)]
    np.testing.assert_array_equal(COLOURS, before)
    np.testing.assert_array_equal(results[0], results[2])
    assert repr(eval(repr(transform), vars(T))) == repr(transform)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: T.ColorJitter(brightness=-0.1), ValueError, "ColorJitter: brightness: expected .* from 0.0 .* -0.1"),
        (lambda: T.ColorJitter(contrast=(0.5,)), ValueError, r"ColorJitter: contrast: expected a pair .* got \(0.5,\)"),
        (lambda: T.ColorJitter(saturation=None), TypeError, "ColorJitter: saturation: expected a number, got None"),
        (lambda: T.ColorJitter(hue=0.6), ValueError, "ColorJitter: hue: expected .* from 0.0 to 0.5, got 0.6"),
        (lambda: T.ColorJitter(hue=(-0.6, 0.1)), ValueError, "hue: expected .* from -0.5 to 0.5, got -0.6"),
        (lambda: T.Lighting(-1), ValueError, "Lighting: alphastd: expected .* from 0.0"),
        (lambda: T.Lighting(eigval=(1, 2)), ValueError, r"eigval: expected three finite numbers, got \(1, 2\)"),
        (lambda: T.Lighting(eigvec=np.eye(2)), ValueError, "Lighting: eigvec: expected three rows"),
        (lambda: T.Normalize(mean=(1, 2)), ValueError, "Normalize: mean: expected three finite numbers"),
        (lambda: T.Normalize(std=(1, 0, 1)), ValueError, r"Normalize: std: expected numbers above 0, got \(1, 0, 1\)"),
    ],
)
def test_a_bad_argument_is_named_when_the_transform_is_built(
    build: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build()
