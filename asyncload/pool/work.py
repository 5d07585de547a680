"""How one image is done: bytes to pixels to transformed result. The same code in every executor."""

from __future__ import annotations

import traceback
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from asyncload.decode import Decode, Decoder
from asyncload.errors import SampleError, TransformError
from asyncload.pool.jobs import Result
from asyncload.pool.values import as_value
from asyncload.types import Region, RegionTransform, Transform

__all__ = ["SampleRandom", "Work"]


class SampleRandom:
    """Random generators by (seed, epoch, index).

    Philox is a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Seed
    and epoch are its key, the index is the upper half of its counter: every sample has 2**128 numbers of its own, and
    to start a sample's stream costs an assignment.
    """

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)

    def __call__(self, seed: int, epoch: int, index: int) -> np.random.Generator:
        """The generator of one sample. The one object is reused: it is that sample's until the next call."""
        self._bits.state = {
            "bit_generator": "Philox",
            "state": {
                "counter": np.array([0, 0, index, 0], np.uint64),
                "key": np.array([seed, epoch], np.uint64),
            },
            "buffer": np.zeros(4, np.uint64),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        return self._generator


class Work:
    """What a worker does with each image. One of these per worker: it holds a decoder and a generator.

    ``shared`` says that results are handed on by reference, as executors in this process do: no two of them may then be
    the same memory.
    """

    def __init__(self, transform: Transform | None, settings: Decode, *, shared: bool) -> None:
        self._transform = transform
        self._region_transform = transform if isinstance(transform, RegionTransform) else None
        self._decoder = Decoder(settings, reuse=not shared)
        self._random = SampleRandom()
        self._shared = shared

    def run(self, data: memoryview, key: tuple[int, int, int], row: NDArray[np.generic] | None = None) -> Result:
        """Decode and transform; write the result to ``row`` if it is an array of that shape and dtype.

        A value that is returned instead may be the decoder's memory, and then, unless ``shared``, the next call writes
        over it.
        """
        started = decoded = perf_counter()
        try:
            rng = self._random(*key)
            if self._region_transform is not None:
                chosen: list[Region] = []
                transform = self._region_transform

                def choose(width: int, height: int) -> Region:
                    chosen.append(transform.region(width, height, rng))
                    return chosen[0]

                pixels = self._decoder.decode(data, choose)
                decoded = perf_counter()
                value = transform.apply(pixels, chosen[0], rng)
            else:
                pixels = self._decoder.decode(data)
                decoded = perf_counter()
                value = pixels if self._transform is None else self._transform(pixels, rng)
            value = as_value(value)
            in_row = False
            if isinstance(value, np.ndarray):
                if row is not None and value.shape == row.shape and value.dtype == row.dtype:
                    np.copyto(row, value)
                    value, in_row = None, True
                elif self._shared and value.nbytes < pixels.nbytes and np.may_share_memory(value, pixels):
                    value = value.copy()  # a crop shall not keep the whole picture in memory
        except SampleError as error:
            return Result(error=error, decode_seconds=perf_counter() - started)
        except (Exception, SystemExit) as error:  # a transform is the user's: whatever it raises is this sample's
            return Result(error=_transform_error(error), decode_seconds=perf_counter() - started)
        return Result(
            value,
            in_row=in_row,
            decode_seconds=decoded - started,
            transform_seconds=perf_counter() - decoded,
        )


def _transform_error(error: BaseException) -> TransformError:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return TransformError(f"{type(error).__name__}: {error}{where}", reason="raised")
