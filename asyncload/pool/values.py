"""How a transform's result crosses from a worker process: arrays and plain values, never a pickle.

A hijacked decoder must not own the parent, so what comes back is data that is checked, not code that is run. A packed
value is a JSON description followed by the raw bytes of the arrays and the bytes objects that it mentions.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

__all__ = ["as_value", "pack_into", "packed_size", "prepare", "unpack"]

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64  # a cache line, so that arrays start as they would in memory of their own
_KINDS = "biufcSU"  # bool, integers, floats, complex, fixed-width bytes and text: what has no pointers in it

Prepared = tuple[bytes, list[Any], int]
"""A description, the buffers that follow it, and the size of both in bytes."""


def as_value(value: Any) -> Any:
    """``value`` as numpy where another library's array was returned (a CPU tensor, a PIL image), else as it is."""
    foreign = hasattr(value, "__array__") or hasattr(value, "__array_interface__")
    return np.asarray(value) if foreign and not isinstance(value, (np.ndarray, np.generic)) else value


def prepare(value: Any) -> Prepared:
    """Describe ``value``, without copying any pixels yet.

    Raises ``TypeError`` naming the part that is neither an array, number, string, bytes or ``None``, nor a list,
    tuple or dict of such.
    """
    buffers: list[Any] = []
    description = json.dumps(_describe(value, buffers, [0], "result")).encode()
    size = _aligned(_LENGTH.size + len(description))
    return description, buffers, size + sum(_aligned(buffer.nbytes) for buffer in buffers)


def packed_size(prepared: Prepared) -> int:
    return prepared[2]


def pack_into(prepared: Prepared, memory: memoryview) -> None:
    """Write a prepared value at the start of ``memory``."""
    description, buffers, _ = prepared
    _LENGTH.pack_into(memory, 0, len(description))
    memory[_LENGTH.size : _LENGTH.size + len(description)] = description
    offset = _aligned(_LENGTH.size + len(description))
    for buffer in buffers:
        if isinstance(buffer, np.ndarray):
            target = np.ndarray(buffer.shape, buffer.dtype, buffer=memory, offset=offset)
            np.copyto(target, buffer)
        else:
            memory[offset : offset + buffer.nbytes] = buffer
        offset += _aligned(buffer.nbytes)


def unpack(memory: memoryview) -> Any:
    """The value in ``memory``, copied out of it. Raises ``ValueError`` where the bytes are not a packed value."""
    try:
        (length,) = _LENGTH.unpack_from(memory)
        start = _LENGTH.size + length
        description = json.loads(bytes(memory[_LENGTH.size : start]))
        return _rebuild(description, memory[_aligned(start) :])
    except (struct.error, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ValueError(f"not a packed value: {error}") from None


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _describe(value: Any, buffers: list[Any], end: list[int], where: str) -> Any:
    value = as_value(value)
    if isinstance(value, np.generic):
        return {"scalar": _describe(np.asarray(value), buffers, end, where)}
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise TypeError(f"{where} is an array of dtype {value.dtype}")
        return {"array": [_append(value, buffers, end), value.dtype.str, list(value.shape)]}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": [_append(memoryview(value).cast("B"), buffers, end), len(buffers[-1])]}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (list, tuple)):
        parts = [_describe(part, buffers, end, f"{where}[{i}]") for i, part in enumerate(value)]
        return parts if isinstance(value, list) else {"tuple": parts}
    if isinstance(value, dict):
        keys = [_describe(key, buffers, end, f"a key of {where}") for key in value]
        parts = [_describe(part, buffers, end, f"{where}[{key!r}]") for key, part in value.items()]
        return {"dict": [keys, parts]}
    raise TypeError(f"{where} is a {type(value).__module__}.{type(value).__qualname__}")


def _append(buffer: Any, buffers: list[Any], end: list[int]) -> int:
    offset = end[0]
    end[0] += _aligned(buffer.nbytes)
    buffers.append(buffer)
    return offset


def _rebuild(description: Any, memory: memoryview) -> Any:
    if isinstance(description, list):
        return [_rebuild(part, memory) for part in description]
    if not isinstance(description, dict):
        return description
    ((kind, content),) = description.items()
    if kind == "array":
        offset, dtype_name, shape = content
        dtype = np.dtype(dtype_name)
        if dtype.kind not in _KINDS:
            raise ValueError(f"not a packed value: dtype {dtype}")
        return np.ndarray(tuple(shape), dtype, buffer=memory, offset=offset).copy()
    if kind == "scalar":
        return _rebuild(content, memory)[()]
    if kind == "bytes":
        offset, length = content
        return bytes(memory[offset : offset + length])
    if kind == "tuple":
        return tuple(_rebuild(part, memory) for part in content)
    if kind == "dict":
        keys, parts = content
        return {_rebuild(key, memory): _rebuild(part, memory) for key, part in zip(keys, parts, strict=True)}
    raise ValueError(f"not a packed value: {kind!r}")
