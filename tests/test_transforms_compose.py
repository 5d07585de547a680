"""Transforms in a row, the ImageNet recipes, and other libraries' functions."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import Any

import cloudpickle
import numpy as np
import pytest
from PIL import Image as PillowImage

from asyncload import transforms as T  # noqa: N812 (the field's own abbreviation)
from asyncload.types import Region, RegionTransform

IMAGE = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def invert(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 255 - image


def test_compose_applies_all_in_order_with_one_generator() -> None:
    seen = []

    def note(image: Any, generator: np.random.Generator) -> str:
        seen.append((image, generator))
        return f"{image} and {len(seen)}"

    generator = rng()
    assert T.Compose([note, note])("0", generator) == "0 and 1 and 2"
    assert seen == [("0", generator), ("0 and 1", generator)]


def test_an_empty_compose_changes_nothing() -> None:
    assert T.Compose([])(IMAGE, rng()) is IMAGE


@pytest.mark.parametrize("first", [T.RandomResizedCrop(9), T.Resize(9), T.CenterCrop(9), T.imagenet_train(9)])
def test_compose_takes_a_region_if_its_first_transform_does(first: Any) -> None:
    compose = T.Compose([first, T.ToFloat()])
    assert isinstance(compose, T.Compose)
    assert isinstance(compose, RegionTransform)
    assert compose.region(120, 90, rng(1)) == first.region(120, 90, rng(1))


@pytest.mark.parametrize("steps", [[], [invert], [T.ColorJitter(0.4), T.Resize(9)], [T.Compose([invert, T.Resize(9)])]])
def test_compose_takes_no_region_otherwise(steps: list[Any]) -> None:
    assert not isinstance(T.Compose(steps), RegionTransform)


def test_a_users_own_region_transform_counts() -> None:
    class LeftHalf:
        def region(self, width: int, height: int, rng: np.random.Generator) -> Region:
            return Region(0, 0, width // 2, height, width // 2, height)

        def apply(self, pixels: np.ndarray, region: Region, rng: np.random.Generator) -> np.ndarray:
            return pixels

        def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return image[:, : image.shape[1] // 2]

    compose = T.Compose([LeftHalf(), invert])
    assert isinstance(compose, RegionTransform)
    region = compose.region(120, 90, rng())
    np.testing.assert_array_equal(compose.apply(IMAGE[:, :60], region, rng()), compose(IMAGE, rng()))


@pytest.mark.parametrize(
    "transform",
    [
        T.imagenet_train(24),
        T.imagenet_eval(24),
        T.Compose([T.ColorJitter(0.4, 0.4, 0.4, 0.1), invert, T.Lighting(), T.Normalize()]),
        T.Compose([T.imagenet_train(24), T.wrap(np.negative)]),
    ],
    ids=repr,
)
def test_transforms_travel_by_pickle(transform: Any) -> None:
    for library in (pickle, cloudpickle):
        copy = library.loads(library.dumps(transform))
        assert type(copy) is type(transform)
        assert repr(copy) == repr(transform)
        np.testing.assert_array_equal(copy(IMAGE, rng(7)), transform(IMAGE, rng(7)))


def test_a_subclass_of_compose_stays_one() -> None:
    class Mine(T.Compose):
        pass

    mine = Mine([T.Resize(9)])
    assert type(mine) is Mine
    assert not isinstance(mine, RegionTransform)
    np.testing.assert_array_equal(mine(IMAGE, rng()), T.Resize(9)(IMAGE, rng()))


@pytest.mark.parametrize("transforms", [T.Resize(9), [T.Resize(9), 3], (t for t in [invert])])
def test_compose_takes_a_list_of_callables(transforms: Any) -> None:
    with pytest.raises(TypeError, match="Compose: transforms: expected a list of callables"):
        T.Compose(transforms)


def test_the_repr_of_compose_builds_it_again() -> None:
    recipe = T.imagenet_eval()
    assert repr(recipe) == (
        "Compose([Resize(size=256, interpolation='bilinear', max_size=None), CenterCrop(size=(224, 224))])"
    )
    assert repr(eval(repr(recipe), vars(T))) == repr(recipe)
    assert repr(T.Compose([T.ToFloat()])) == "Compose([ToFloat()])"


@pytest.mark.parametrize("seed", range(6))
def test_imagenet_train_is_a_resized_crop_and_a_flip(seed: int) -> None:
    generator = rng(seed)
    expected = T.RandomResizedCrop(64)(IMAGE, generator)
    if generator.random() < 0.5:
        expected = expected[:, ::-1]
    result = T.imagenet_train(64)(IMAGE, rng(seed))
    np.testing.assert_array_equal(result, expected)
    assert result.shape == (64, 64, 3)
    assert result.flags.c_contiguous


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 375), (300, 300), (90, 400), (20, 30)])
def test_imagenet_eval_is_torchvisions(height: int, width: int) -> None:
    y, x = np.indices((height, width))
    image = np.stack([128 + 100 * np.sin(x / 9), 128 + 100 * np.cos(y / 7), (x + y) % 256], axis=-1).astype(np.uint8)
    short, long = min(height, width), max(height, width)
    new_long = int(256 * long / short)
    size = (256, new_long) if width <= height else (new_long, 256)
    resized = PillowImage.fromarray(image).resize(size, PillowImage.Resampling.BILINEAR)
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    expected = np.asarray(resized.crop((left, top, left + 224, top + 224)), int)
    result = T.imagenet_eval()(image, rng())
    assert result.shape == (224, 224, 3)
    assert result.dtype == np.uint8
    assert result.flags.c_contiguous
    assert np.abs(result - expected).mean() < 1.0


def test_imagenet_eval_keeps_the_proportion_of_256_to_224() -> None:
    def shorter_side(recipe: Any) -> int:
        return int(recipe.region(10_000, 10_000, rng()).least_width)

    assert [shorter_side(T.imagenet_eval(size)) for size in (224, 288, 299, 96)] == [256, 329, 342, 110]
    assert shorter_side(T.imagenet_eval(224, 232)) == 232


def test_bad_recipes_are_named() -> None:
    with pytest.raises(ValueError, match="imagenet_train: size: expected at least 1 pixel, got 0"):
        T.imagenet_train(0)
    with pytest.raises(TypeError, match="imagenet_eval: size: expected an int"):
        T.imagenet_eval((224, 224))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="imagenet_eval: resize: expected at least 1 pixel, got -1"):
        T.imagenet_eval(224, -1)


def test_earlier_calls_do_not_matter() -> None:
    steps = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.Lighting()]
    transform = T.Compose(steps)
    forwards = [transform(IMAGE, rng(seed)) for seed in range(8)]
    backwards = [transform(IMAGE, rng(seed)) for seed in reversed(range(8))]
    np.testing.assert_array_equal(forwards, backwards[::-1])


def draw_from_globals(image: np.ndarray) -> list[float]:
    return [random.random(), float(np.random.rand())]


def test_wrap_makes_global_generators_depend_on_the_sample_alone() -> None:
    wrapped = T.wrap(draw_from_globals)
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()
    first = wrapped(IMAGE, rng(5))
    assert random.getstate() == before[0]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1][1])
    random.seed(2)
    np.random.seed(2)
    assert wrapped(IMAGE, rng(5)) == first
    assert not set(wrapped(IMAGE, rng(6))) & set(first)
    generator = rng(5)
    assert wrapped(IMAGE, generator) == first
    assert wrapped(IMAGE, generator) != first


def test_wrap_puts_the_global_generators_back_after_an_error() -> None:
    def fail(image: np.ndarray) -> None:
        random.random()
        raise LookupError("of its own")

    before = random.getstate()
    with pytest.raises(LookupError):
        T.wrap(fail)(IMAGE, rng())
    assert random.getstate() == before


def test_wrapped_calls_in_threads_take_turns() -> None:
    inner = T.wrap(draw_from_globals)
    other = threading.Thread(target=inner, args=(IMAGE, rng(1)))

    def interrupted(image: np.ndarray) -> list[float]:
        other.start()
        other.join(0.2)  # it would be done long before, were it let in
        assert other.is_alive()
        return draw_from_globals(image)

    assert T.wrap(interrupted)(IMAGE, rng(2)) == inner(IMAGE, rng(2))
    other.join()


def test_wrap_gives_the_function_a_contiguous_image() -> None:
    assert T.wrap(lambda image: image.flags.c_contiguous)(IMAGE[:, ::-1], rng())


def test_a_wrapped_function_may_call_another() -> None:
    inner = T.wrap(draw_from_globals)
    outer = T.wrap(lambda image: (inner(image, rng(3)), draw_from_globals(image)))
    nested, own = outer(IMAGE, rng(4))
    assert nested == inner(IMAGE, rng(3))
    assert own == T.wrap(draw_from_globals)(IMAGE, rng(4))


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_wrap_seeds_torch_if_it_is_there_and_does_not_import_it() -> None:
    script = """
import sys
import numpy as np
from asyncload import transforms

image = np.zeros((2, 2, 3), np.uint8)
transforms.wrap(lambda image: image)(image, np.random.default_rng(0))
assert "torch" not in sys.modules

import torch
wrapped = transforms.wrap(lambda image: torch.rand(3).tolist())
torch.manual_seed(1)
before = torch.get_rng_state()
first = wrapped(image, np.random.default_rng(5))
assert torch.equal(torch.get_rng_state(), before)
torch.manual_seed(2)
assert wrapped(image, np.random.default_rng(5)) == first
assert wrapped(image, np.random.default_rng(6)) != first
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_wrap_takes_a_callable() -> None:
    with pytest.raises(TypeError, match="wrap: expected a callable of one argument, got 3"):
        T.wrap(3)  # type: ignore[arg-type]
    assert repr(T.wrap(draw_from_globals)).startswith("wrap(<function draw_from_globals")
