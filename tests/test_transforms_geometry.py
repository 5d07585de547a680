"""Which pixels a transform takes, and how many it makes of them: torchvision's geometry, derived here once more."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncload import transforms as T  # noqa: N812 (the field's own abbreviation)
from asyncload.types import Region, RegionTransform

SIDE = st.integers(1, 400)


def coordinates(height: int, width: int) -> np.ndarray:
    """An image whose pixels say where they are: red the column, green the row (both up to 255), blue a check digit."""
    rows, columns = np.indices((height, width))
    return np.stack([columns, rows, (columns * 7 + rows * 13) % 251], axis=-1).astype(np.uint8)


def crop(image: np.ndarray, region: Region) -> np.ndarray:
    return image[region.top : region.top + region.height, region.left : region.left + region.width]


class Draws:
    """A generator that records its numbers, so that a test can follow them through the published algorithm."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.uniforms: list[float] = []
        self.ranges: list[tuple[int, int]] = []

    def uniform(self, low: float, high: float) -> float:
        self.uniforms.append(self.rng.uniform(low, high))
        return self.uniforms[-1]

    def integers(self, low: int, high: int) -> int:
        self.ranges.append((low, high))
        return int(self.rng.integers(low, high))


def tries(width: int, height: int, uniforms: list[float]) -> list[tuple[int, int]]:
    """The sizes that pairs of (area fraction, log ratio) stand for."""
    pairs = zip(uniforms[::2], uniforms[1::2], strict=True)
    targets = [(fraction * width * height, math.exp(log_ratio)) for fraction, log_ratio in pairs]
    return [(round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)) for area, ratio in targets]


@settings(max_examples=300, deadline=None)
@given(SIDE, SIDE, st.integers(0, 2**32))
def test_random_resized_crop_takes_the_first_of_ten_sizes_that_fits(width: int, height: int, seed: int) -> None:
    draws = Draws(seed)
    region = T.RandomResizedCrop(224).region(width, height, draws)  # type: ignore[arg-type]
    sizes = tries(width, height, draws.uniforms)
    fits = [0 < w <= width and 0 < h <= height for w, h in sizes]
    assert not any(fits[:-1])
    if fits[-1]:
        assert (region.width, region.height) == sizes[-1]
        assert draws.ranges == [(0, height - region.height + 1), (0, width - region.width + 1)]
    else:
        assert len(sizes) == 10
        assert not draws.ranges
    assert 0 <= region.left <= width - region.width
    assert 0 <= region.top <= height - region.height
    assert (region.least_width, region.least_height) == (min(region.width, 224), min(region.height, 224))


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [
        (1000, 10, (493, 0, 13, 10)),  # wider than 4 / 3: round(10 * 4 / 3) columns
        (10, 1000, (0, 493, 10, 13)),
        (1, 5000, (0, 2499, 1, 1)),
        (8, 701, (0, 345, 8, 11)),  # round(8 / (3 / 4))
        (701, 11, (343, 0, 15, 11)),
    ],
)
def test_random_resized_crop_falls_back_to_the_centre(
    width: int, height: int, expected: tuple[int, int, int, int]
) -> None:
    whole_area = T.RandomResizedCrop(224, scale=(1.0, 1.0))
    assert whole_area.region(width, height, np.random.default_rng(0))[:4] == expected


def test_random_resized_crop_falls_back_to_the_whole_image_of_an_allowed_shape() -> None:
    too_large = T.RandomResizedCrop(224, scale=(2.0, 2.0))
    assert too_large.region(110, 100, np.random.default_rng(0))[:4] == (0, 0, 110, 100)


def test_random_resized_crop_has_torchvisions_distribution() -> None:
    transform, rng = T.RandomResizedCrop(224), np.random.default_rng(0)
    width, height, count = 5000, 4000, 8000
    ours = [transform.region(width, height, rng) for _ in range(count)]

    other = np.random.default_rng(1)
    reference = []
    while len(reference) < count:  # ten tries nearly always suffice here, so the fallback plays no part
        area = other.uniform(0.08, 1.0) * width * height
        ratio = np.exp(other.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if w <= width and h <= height:
            reference.append((other.integers(width - w + 1), other.integers(height - h + 1), w, h))

    def statistics(regions: Any) -> list[np.ndarray]:
        left, top, w, h = np.array([region[:4] for region in regions], float).T
        return [w * h, np.log(w / h), left / np.maximum(width - w, 1), top / np.maximum(height - h, 1), left, top]

    for one, two in zip(statistics(ours), statistics(reference), strict=True):
        everything = np.sort(np.concatenate([one, two]))
        ranks = [np.searchsorted(np.sort(values), everything, side="right") / count for values in (one, two)]
        assert np.abs(ranks[0] - ranks[1]).max() < 1.63 * math.sqrt(2 / count)  # Kolmogorov-Smirnov, 1 %


def test_random_resized_crop_resizes_exactly_its_region() -> None:
    image = coordinates(200, 250)
    transform = T.RandomResizedCrop(64, interpolation="nearest")  # a power of two: the positions are exact
    for seed in range(20):
        region = transform.region(250, 200, np.random.default_rng(seed))
        result = transform(image, np.random.default_rng(seed))
        columns = np.floor(region.left + (np.arange(64) + 0.5) * region.width / 64)
        rows = np.floor(region.top + (np.arange(64) + 0.5) * region.height / 64)
        np.testing.assert_array_equal(result[:, :, 0], np.broadcast_to(columns, (64, 64)))
        np.testing.assert_array_equal(result[:, :, 1], np.broadcast_to(rows[:, None], (64, 64)))


@pytest.mark.parametrize(
    ("size", "max_size", "height", "width", "expected"),
    [
        (256, None, 375, 500, (256, 341)),  # int(341.33)
        (256, None, 500, 375, (341, 256)),
        (256, None, 400, 300, (341, 256)),
        (256, None, 600, 599, (256, 256)),  # int(256.43)
        (256, None, 333, 500, (256, 384)),  # int(384.38)
        (256, None, 335, 500, (256, 382)),  # int(382.09)
        (224, None, 301, 403, (224, 299)),  # int(299.91)
        (256, None, 256, 300, (256, 300)),
        (256, None, 1, 7, (256, 1792)),
        (5, None, 3, 3, (5, 5)),
        (256, 310, 375, 500, (232, 310)),  # int(310 * 256 / 341)
        (256, 341, 375, 500, (256, 341)),
        (256, 512, 1, 5000, (1, 512)),  # int(0.03), but no side can be 0
        ((40, 60), None, 375, 500, (40, 60)),
    ],
)
def test_resize_has_torchvisions_rounding(
    size: Any, max_size: int | None, height: int, width: int, expected: tuple[int, int]
) -> None:
    transform = T.Resize(size, max_size=max_size)
    result = transform(np.zeros((height, width, 3), np.uint8), np.random.default_rng(0))
    assert result.shape == (*expected, 3)
    region = transform.region(width, height, np.random.default_rng(0))
    assert region == (0, 0, width, height, min(width, expected[1]), min(height, expected[0]))


def test_resize_refuses_to_blow_up_a_strip() -> None:
    with pytest.raises(ValueError, match=r"at most 178956970 pixels, got 256 x 15360000 from an image of 60000 x 1"):
        T.Resize(256).region(1, 60_000, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("height", "width", "top", "left"),
    [
        (10, 10, 3, 3),
        (11, 11, 4, 4),  # round(3.5): to even
        (9, 9, 2, 2),  # round(2.5): to even
        (256, 341, 126, 168),  # round(168.5)
        (4, 5, 0, 0),
    ],
)
def test_center_crop_rounds_as_torchvision(height: int, width: int, top: int, left: int) -> None:
    image = coordinates(height, width)
    result = T.CenterCrop(4)(image, np.random.default_rng(0))
    np.testing.assert_array_equal(result, image[top : top + 4, left : left + 4])
    assert result.flags.c_contiguous


@pytest.mark.parametrize(
    ("height", "width", "top", "left"),
    [(2, 3, 1, 1), (3, 2, 1, 1), (5, 4, 0, 0), (1, 1, 2, 2), (5, 2, 0, 1), (2, 5, 1, 0)],
)
def test_center_crop_pads_with_black(height: int, width: int, top: int, left: int) -> None:
    image = coordinates(height, width) + np.uint8(1)
    expected = np.zeros((5, 5, 3), np.uint8)
    expected[top : top + height, left : left + width] = image
    np.testing.assert_array_equal(T.CenterCrop(5)(image, np.random.default_rng(0)), expected)


def test_center_crop_pads_one_side_while_it_crops_the_other() -> None:
    image = coordinates(3, 11) + np.uint8(1)
    expected = np.zeros((6, 4, 3), np.uint8)
    expected[1:4] = image[:, 4:8]  # round(3.5) columns are left out; one black row above and two below
    np.testing.assert_array_equal(T.CenterCrop((6, 4))(image, np.random.default_rng(0)), expected)


def test_random_horizontal_flip_flips_as_often_as_it_should() -> None:
    image = coordinates(3, 5)
    rng = np.random.default_rng(0)
    flip = T.RandomHorizontalFlip(0.3)
    results = [flip(image, rng) for _ in range(3000)]
    flipped = [not np.array_equal(result, image) for result in results]
    np.testing.assert_array_equal(results[flipped.index(True)], image[:, ::-1])
    assert abs(np.mean(flipped) - 0.3) < 3 * math.sqrt(0.3 * 0.7 / 3000)
    assert T.RandomHorizontalFlip(0)(image, rng) is image
    np.testing.assert_array_equal(T.RandomHorizontalFlip(1)(image, rng), image[:, ::-1])


MAKERS: list[Callable[[int, int], Any]] = [
    lambda a, b: T.RandomResizedCrop((a, b)),
    lambda a, b: T.RandomResizedCrop(a, scale=(0.5, 1.0), ratio=(0.2, 5.0), interpolation="bicubic"),
    lambda a, b: T.Resize(a),
    lambda a, b: T.Resize((a, b), interpolation="nearest"),
    lambda a, b: T.Resize(a, max_size=a + b),
    lambda a, b: T.CenterCrop((a, b)),
    lambda a, b: T.imagenet_train((a, b)),
    lambda a, b: T.imagenet_eval(a),
    lambda a, b: T.Compose([T.imagenet_train(a), T.ColorJitter(0.4, 0.4, 0.4, 0.1)]),
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(MAKERS), *[st.integers(1, 60)] * 4, st.integers(0, 2**32))
def test_it_makes_no_difference_who_crops(
    make: Callable[[int, int], Any], a: int, b: int, height: int, width: int, seed: int
) -> None:
    transform = make(a, b)
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    before = image.copy()
    one, two = np.random.default_rng(seed), np.random.default_rng(seed)

    whole = transform(image, one)
    assert isinstance(transform, RegionTransform)
    region = transform.region(width, height, two)
    assert 0 <= region.left < region.left + region.width <= width
    assert 0 <= region.top < region.top + region.height <= height
    assert 1 <= region.least_width <= region.width
    assert 1 <= region.least_height <= region.height
    pixels = crop(image, region)
    assert pixels.shape[:2] == (region.height, region.width)
    parts = transform.apply(pixels, region, two)

    np.testing.assert_array_equal(whole, parts)
    assert one.bit_generator.state == two.bit_generator.state
    assert whole.dtype == np.uint8
    assert whole.flags.c_contiguous
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize("make", MAKERS)
def test_a_region_may_come_at_any_scale_down_to_the_least(make: Callable[[int, int], Any]) -> None:
    transform = make(48, 64)
    image = np.full((300, 400, 3), 77, np.uint8)
    image[:, 200:] = 177
    whole = transform(image, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    region = transform.region(400, 300, rng)
    smallest = T.Resize((region.least_height, region.least_width))(crop(image, region), rng)
    from_smallest = transform.apply(smallest, region, rng)
    assert from_smallest.shape == whole.shape
    assert np.abs(from_smallest.astype(int) - whole).mean() < 3


def test_resize_goes_by_the_image_and_not_by_the_scale_it_came_at() -> None:
    transform = T.Resize(100)
    region = transform.region(299, 200, np.random.default_rng(0))
    result = transform.apply(np.zeros((100, 150, 3), np.uint8), region, np.random.default_rng(0))
    assert result.shape == (100, 149, 3)  # int(100 * 299 / 200)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: T.RandomResizedCrop(0), ValueError, "RandomResizedCrop: size: expected at least 1 pixel, got 0"),
        (lambda: T.RandomResizedCrop(2.5), TypeError, "RandomResizedCrop: size: expected an int, got 2.5"),
        (lambda: T.RandomResizedCrop((1, 2, 3)), ValueError, r"expected an int or \(height, width\), got \(1, 2, 3\)"),
        (lambda: T.RandomResizedCrop(9, scale=0.5), TypeError, r"scale: expected a pair \(least, most\), got 0.5"),
        (lambda: T.RandomResizedCrop(9, (1.0, 0.1)), ValueError, r"scale: expected .* least <= most, got \(1.0, 0.1\)"),
        (lambda: T.RandomResizedCrop(9, ratio=(0, 1)), ValueError, r"ratio: expected numbers above 0, got \(0, 1\)"),
        (lambda: T.RandomResizedCrop(9, ratio=(1, math.inf)), ValueError, "ratio: expected a finite number"),
        (lambda: T.RandomResizedCrop(9, scale=("a", "b")), TypeError, "scale: expected a number, got 'a'"),
        (lambda: T.RandomResizedCrop(9, interpolation="cubic"), ValueError, "expected one of nearest, .* got 'cubic'"),
        (lambda: T.Resize(-1), ValueError, "Resize: size: expected at least 1 pixel, got -1"),
        (lambda: T.Resize(True), TypeError, "Resize: size: expected an int, got True"),
        (lambda: T.Resize(9, max_size=9), ValueError, "expected max_size only with an int size below it"),
        (lambda: T.Resize((9, 9), max_size=20), ValueError, "expected max_size only with an int size below it"),
        (lambda: T.CenterCrop("9"), ValueError, "CenterCrop: size: expected an int or"),
        (lambda: T.RandomHorizontalFlip(1.5), ValueError, "p: expected a finite number from 0.0 to 1.0, got 1.5"),
        (lambda: T.RandomHorizontalFlip("1"), TypeError, "RandomHorizontalFlip: p: expected a number, got '1'"),
    ],
)
def test_a_bad_argument_is_named_when_the_transform_is_built(
    build: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize("transform", [T.RandomResizedCrop(4), T.Resize(4)])
def test_floats_are_not_resized(transform: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a uint8 image \(H, W, 3\), got float32 \(\d, \d, 3\); ToFloat"):
        transform(np.zeros((9, 9, 3), np.float32), np.random.default_rng(0))


def test_the_repr_builds_the_same_transform_again_and_so_does_pickle() -> None:
    for transform in (T.RandomResizedCrop(224), T.Resize(256, max_size=300), T.CenterCrop(9), T.RandomHorizontalFlip()):
        assert repr(eval(repr(transform), vars(T))) == repr(transform)
        assert repr(pickle.loads(pickle.dumps(transform))) == repr(transform)
    assert repr(T.RandomResizedCrop(224, ratio=(0.5, 2))) == (
        "RandomResizedCrop(size=(224, 224), scale=(0.08, 1.0), ratio=(0.5, 2.0), interpolation='bilinear')"
    )
