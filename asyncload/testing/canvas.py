"""A picture in the making, and the few strokes that a landscape is painted with."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Canvas", "Colour"]

Array: TypeAlias = NDArray[np.float32]
Colour: TypeAlias = tuple[int, int, int]

_TILE = 512


@lru_cache(maxsize=1)
def _tile() -> Array:
    """Noise with a 1/f spectrum, as natural textures have: ``(512, 512)``, standard deviation 1, seamless."""
    frequency = np.hypot(np.fft.fftfreq(_TILE)[:, None], np.fft.rfftfreq(_TILE)[None])
    frequency[0, 0] = np.inf
    white = np.random.default_rng(0).standard_normal((_TILE, _TILE))
    noise = np.fft.irfft2(np.fft.rfft2(white) / frequency**1.2)
    return np.asarray(noise / noise.std(), np.float32)


class Canvas:
    """``pixels`` is ``(3, H, W)``, 0..255; ``x`` ``(W,)`` and ``y`` ``(H, 1)`` are in units of the picture's height.

    Colours come first because numpy broadcasts a ``(H, W)`` mask over them several times faster than over a last
    axis of 3. Whatever is random comes from ``rng``.
    """

    def __init__(self, width: int, height: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.height = height
        self.right = width / height
        self.x: Array = (np.arange(width) / height).astype(np.float32)
        self.y: Array = (np.arange(height) / height).astype(np.float32)[:, None]
        self.pixels: Array = np.empty((3, height, width), np.float32)

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def colour(self, colour: Colour, spread: float = 10) -> Array:
        """``(3, 1, 1)``: ``colour``, a little different in every picture."""
        return (colour + self.rng.normal(0, spread, 3)).astype(np.float32)[:, None, None]

    def fade(self, top: Colour, bottom: Colour, start: float = 0, end: float = 1) -> Array:
        """``(3, H, 1)``: ``top`` down to the height ``start``, ``bottom`` from ``end``, and what lies between."""
        share: Array = np.clip((self.y - start) / (end - start), 0, 1)
        first, last = self.colour(top), self.colour(bottom)
        return first + (last - first) * share

    def noise(self, across: float = 1, down: float = 1) -> Array:
        """``(H, W)`` of noise; ``across`` and ``down`` below 1 stretch it in that direction."""
        top, left = self.rng.integers(_TILE, size=2)
        rows = (top + (np.arange(self.height) * down).astype(int)) % _TILE
        columns = (left + (np.arange(self.x.size) * across).astype(int)) % _TILE
        noise: Array = _tile()[rows].take(columns, axis=1)
        return noise

    def outline(self, base: float, rise: float, frequency: float, rough: float = 0.5, ridged: bool = False) -> Array:
        """``(W,)``: the upper edge of a layer, ``rise`` above and below ``base``; with sharp peaks where ``ridged``."""
        octaves = np.arange(6, dtype=np.float32)[:, None]
        waves = np.sin(self.x * frequency * 2**octaves * 6.28 + self.rng.uniform(0, 6.28, (6, 1)))
        if ridged:
            waves = 1 - 2 * np.abs(waves)
        return np.asarray(base - rise * (waves * rough**octaves).sum(0) * (1 - rough), np.float32)

    def below(self, edge: Array | float) -> Array:
        """``(H, W)``: how much of each pixel (0..1) lies below ``edge``, so that edges are smooth."""
        cover: Array = np.clip((self.y - edge) * self.height + 0.5, 0, 1)
        return cover

    def lay(self, colour: Array, cover: Array) -> None:
        """Put ``colour`` over the picture, as much of it as ``cover`` (0..1) says."""
        self.pixels += (colour - self.pixels) * cover

    def ground(self, edge: Array | float, colours: Array, texture: Array | float = 0) -> None:
        """Everything below ``edge`` in ``colours``, made lighter and darker by ``texture`` (a share of the colour)."""
        first = max(0, int(np.min(edge) * self.height) - 1)
        if colours.shape[1] > 1:
            colours = colours[:, first:]
        if isinstance(texture, np.ndarray):
            colours = colours * (1 + texture[first:])
        region = self.pixels[:, first:]
        region += (colours - region) * self.below(edge)[first:]

    def disc(self, x: float, y: float, radius: float, colour: Colour, halo: float) -> None:
        """A sun or moon, and its light in the air, that fades over ``halo``."""
        distance = np.hypot(self.x - x, self.y - y)
        self.lay(self.colour(colour), 0.75 * np.exp(np.minimum(radius - distance, 0) / halo))
        self.lay(self.colour(colour), np.clip((radius - distance) * self.height + 0.5, 0, 1))

    def clouds(self, colour: Colour, floor: float, amount: float) -> None:
        cover = np.clip(self.noise(0.5, 1.6) * 0.6 + amount, 0, 0.9) * np.clip((floor - self.y) * 4, 0, 1)
        self.lay(self.colour(colour), cover)

    def water(self, edge: float, colours: Array, strength: float) -> None:
        """Ripples that grow towards the viewer."""
        near = np.clip((self.y - edge) / (1 - edge), 0.01, 1)
        ripples = np.sin(14 / (near + 0.08) + 2.2 * self.noise(0.5, 2.0)) * strength * (0.35 + near)
        self.ground(edge, colours, ripples)

    def glitter(self, edge: float, x: float, colour: Colour, width: float) -> None:
        """A path of light on the water below ``edge``, under ``x``."""
        near = np.clip(self.y - edge, 0, 1)
        path = np.exp(-(((self.x - x) / (width + 0.35 * near)) ** 2))
        sparks = np.clip(self.noise(0.35, 4.0) * 0.9 + 0.35, 0, 1)
        self.lay(self.colour(colour), path * sparks * self.below(edge))

    def conifers(self, foot: float, height: float, colour: Colour, count: int) -> None:
        """A row of fir trees as one outline: each a triangle with a saw's edge."""
        middles = self.rng.uniform(0, self.right, (count, 1))
        heights = height * self.rng.uniform(0.6, 1.3, (count, 1))
        away = np.abs(self.x - middles) / heights
        saw = 0.12 * np.abs((away * 14) % 1 - 0.5)
        tops = foot - (heights * np.clip(1 - 3.2 * away + saw, 0, 1)).max(0)
        self.ground(tops.astype(np.float32), self.colour(colour, 5), 0.3 * self.noise(2, 2))

    def peaks(self, base: float, rise: float, rock: Colour) -> None:
        """A range of mountains, lit from one side, with snow above an uneven line."""
        edge = self.outline(base, rise, self.between(0.4, 0.7), 0.52, ridged=True)
        slope = np.tanh(np.gradient(edge) * self.height) * self.rng.choice((-0.3, 0.3))
        light = slope * np.exp(np.minimum(edge - self.y, 0) / (0.5 * rise)) + 0.14 * self.noise(1.5, 1.5)
        self.ground(edge, self.colour(rock), light)
        snow = np.clip((base - rise * 0.1 - self.y) * 14 + 1.2 * self.noise(2, 1), 0, 0.92) * self.below(edge)
        self.lay(self.colour((244, 248, 255)) * (1 + 0.6 * light), snow)
