from __future__ import annotations

from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from asyncload.pool.values import pack_into, packed_size, prepare, unpack


def round_trip(value: Any) -> Any:
    prepared = prepare(value)
    memory = bytearray(packed_size(prepared))
    pack_into(prepared, memoryview(memory))
    return unpack(memoryview(memory))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and bool(a == b)


arrays = nps.arrays(
    st.sampled_from([np.uint8, np.int16, np.float32, np.float64, np.bool_, np.complex64]),
    nps.array_shapes(min_dims=0, max_dims=4, max_side=5),
)
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | arrays
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_what_goes_in_comes_out(value: Any) -> None:
    assert same(value, round_trip(value))


def test_views_of_any_layout_arrive_whole() -> None:
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    for view in (image[:, ::-1], image[1:, 2:], image.transpose(2, 0, 1), image[::-1]):
        assert np.array_equal(view, round_trip(view))


def test_numpy_scalars_stay_numpy_scalars() -> None:
    value = round_trip({"score": np.float32(0.5)})["score"]
    assert isinstance(value, np.float32)
    assert value == 0.5


def test_what_has_an_array_interface_arrives_as_an_array() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones((2, 2), np.float32)

    assert np.array_equal(round_trip(Tensor()), np.ones((2, 2), np.float32))


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (object(), r"result is a builtins\.object"),
        ({"a": [1, {1, 2}]}, r"result\['a'\]\[1\] is a builtins\.set"),
        (np.array([object()]), "result is an array of dtype object"),
        (lambda: None, "result is a builtins.function"),
    ],
)
def test_what_cannot_be_packed_is_named(value: Any, where: str) -> None:
    with pytest.raises(TypeError, match=where):
        prepare(value)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_value_are_refused(data: bytes) -> None:
    try:
        unpack(memoryview(data))
    except ValueError:
        pass


@given(values, st.data())
def test_a_damaged_value_is_refused_or_is_only_another_value(value: Any, data: st.DataObject) -> None:
    prepared = prepare(value)
    memory = bytearray(packed_size(prepared))
    pack_into(prepared, memoryview(memory))
    for _ in range(3):
        memory[data.draw(st.integers(0, len(memory) - 1))] = data.draw(st.integers(0, 255))
    try:
        unpack(memoryview(memory))
    except ValueError:
        pass


def test_an_array_beyond_its_memory_is_refused() -> None:
    prepared = prepare(np.zeros(1000, np.uint8))
    memory = bytearray(packed_size(prepared))
    pack_into(prepared, memoryview(memory))
    with pytest.raises(ValueError, match="buffer is too small"):
        unpack(memoryview(memory)[:200])


def test_a_pillow_image_is_an_array() -> None:
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    assert np.array_equal(round_trip(PIL.Image.fromarray(pixels)), pixels)
