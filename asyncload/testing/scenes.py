"""Ten kinds of landscape that a person, or a small network, can tell apart.

Each function paints one of them from the back to the front: the sky, what stands in it, then one layer before the
other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asyncload.testing.canvas import Canvas

__all__ = ["CLASSES", "paint"]


def _aurora(c: Canvas) -> None:
    c.pixels[:] = c.fade((8, 10, 36), (20, 44, 70), 0, 0.8)
    stars = c.rng.random(c.pixels.shape[1:]) > 0.997
    c.pixels[:, stars] += c.rng.uniform(60, 190, int(stars.sum()))
    for colour in ((60, 240, 140), (60, 225, 170), (170, 80, 220)):
        hem = c.outline(c.between(0.4, 0.6), 0.12, c.between(0.25, 0.6), 0.35)
        height = hem - c.y
        curtain = np.exp(np.where(height > 0, -height / 0.17, height / 0.02))
        c.lay(c.colour(colour), curtain * np.clip(0.5 + 0.25 * c.noise(0.7, 0.02), 0.1, 0.7))
    c.ground(c.outline(0.8, 0.06, 0.5), c.fade((16, 26, 40), (4, 8, 14), 0.75), 0.2 * c.noise())
    c.conifers(0.9, 0.13, (5, 12, 14), 30)


def _beach(c: Canvas) -> None:
    sea = c.between(0.36, 0.48)
    shore = sea + c.between(0.2, 0.28)
    c.pixels[:] = c.fade((60, 140, 225), (190, 226, 245), 0, sea)
    c.clouds((250, 250, 250), sea, c.between(-0.5, 0.1))
    c.water(sea, c.fade((16, 100, 165), (80, 205, 200), sea, shore + 0.08), 0.08)
    edge = c.outline(shore, 0.025, 0.4, 0.35) + (c.x - c.right / 2) * c.between(-0.15, 0.15)
    c.ground(edge, c.fade((205, 175, 125), (243, 220, 172), shore, shore + 0.15), 0.06 * c.noise(2, 2))
    foam = np.exp(-(((c.y - edge + 0.006) / 0.014) ** 2)) * np.clip(0.8 + 0.4 * c.noise(), 0, 1)
    c.lay(c.colour((250, 252, 250)), foam)
    for _ in range(c.rng.integers(1, 4)):
        x, y, size = c.between(0.1, c.right - 0.1), c.between(shore + 0.06, 0.85), c.between(0.07, 0.13)
        _parasol(c, x, y, size)


def _parasol(c: Canvas, x: float, y: float, size: float) -> None:
    pole = (np.abs(c.x - x) < 0.006) & (c.y > y) & (c.y < y + size)
    c.pixels[:, pole] = 80
    dome = (np.hypot((c.x - x) / size, (c.y - y) / (0.75 * size)) < 1) & (c.y < y)
    stripes = np.sin(np.arctan2(c.x - x, y - c.y) * 9) > 0
    c.pixels[:, dome & stripes] = c.colour(((225, 60, 50), (250, 200, 40), (40, 90, 190))[c.rng.integers(3)])[:, 0]
    c.pixels[:, dome & ~stripes] = 245


def _canyon(c: Canvas) -> None:
    c.pixels[:] = c.fade((60, 120, 200), (225, 215, 200), 0, 0.5)
    c.clouds((250, 244, 236), 0.4, c.between(-0.6, 0))
    for base, colour in ((0.36, (190, 130, 120)), (0.46, (196, 104, 70)), (0.6, (170, 76, 44))):
        wave = c.outline(0, 1, c.between(0.35, 0.7))
        mesa = base + 0.1 * np.tanh(5 * wave) + 0.012 * c.outline(0, 1, 6)
        strata = 0.16 * np.sin(c.y * 90 + 0.7 * c.noise(0.3, 0.3)) + 0.1 * np.sin(c.y * 37)
        c.ground(mesa, c.fade(colour, (120, 56, 40), base, 1.2), strata + 0.12 * c.noise(2, 0.3))
    c.ground(c.outline(0.88, 0.05, 0.7), c.fade((150, 90, 60), (90, 50, 36), 0.85), 0.15 * c.noise(1.5, 3))


def _city(c: Canvas) -> None:
    c.pixels[:] = c.fade((24, 24, 66), (240, 130, 110), 0, 0.75)
    c.disc(c.between(0.15, c.right - 0.15), c.between(0.1, 0.25), 0.045, (250, 240, 210), 0.05)
    columns, rows = (c.x * 55).astype(int), (c.y * 40).astype(int)
    panes = ((c.x * 55) % 1 > 0.35) & ((c.y * 40) % 1 > 0.45)
    for base, colour in ((0.5, (70, 52, 92)), (0.62, (44, 36, 66)), (0.74, (20, 18, 36))):
        houses = c.rng.integers(9, 15)
        roofs = base + c.rng.uniform(-0.2, 0.12, houses)[(c.x / c.right * houses).astype(int)]
        c.ground(roofs.astype(np.float32), c.colour(colour))
        lit = c.rng.random((40, columns[-1] + 1))[rows, columns] > 0.62
        c.pixels[:, lit & panes & (c.y > roofs + 0.02)] = c.colour((236, 196, 112))[:, 0]
    c.water(0.88, c.fade((36, 30, 60), (16, 14, 34), 0.88), 0.3)
    for _ in range(6):
        c.glitter(0.88, c.between(0, c.right), (255, 200, 120), 0.015)


def _desert(c: Canvas) -> None:
    c.pixels[:] = c.fade((96, 160, 220), (250, 222, 170), 0, 0.55)
    c.disc(c.between(0.15, c.right - 0.15), c.between(0.1, 0.28), 0.05, (255, 246, 214), 0.06)
    for base, rise in ((0.5, 0.05), (0.6, 0.08), (0.76, 0.12)):
        crest = c.outline(base, rise, c.between(0.3, 0.6), 0.3)
        slope = np.tanh(3 * np.gradient(crest) * c.height)
        shade = 0.22 * slope * np.exp(np.minimum(crest - c.y, 0) / 0.12)
        wind = 0.035 * np.sin((c.y - crest) * 160 + 2 * c.noise(0.4, 0.4))
        c.ground(crest, c.fade((240, 188, 112), (205, 130, 66), base, 1.1), shade + wind)


def _forest(c: Canvas) -> None:
    c.pixels[:] = c.fade((150, 190, 200), (226, 234, 220), 0, 0.5)
    c.ground(c.outline(0.36, 0.08, 0.5), c.fade((120, 156, 150), (170, 196, 180), 0.3, 0.6), 0.05 * c.noise())
    for foot, height, colour in ((0.5, 0.2, (96, 136, 110)), (0.64, 0.27, (54, 100, 68)), (0.84, 0.36, (26, 66, 40))):
        c.conifers(foot, height, colour, 26)
        c.lay(c.colour((210, 225, 210)), 0.35 * np.exp(-(((c.y - foot) / 0.05) ** 2)))
    c.ground(c.outline(0.9, 0.02, 0.8), c.fade((60, 100, 50), (30, 60, 26), 0.88), 0.22 * c.noise(3, 3))


def _lake(c: Canvas) -> None:
    shore = c.between(0.52, 0.6)
    c.pixels[:] = c.fade((84, 150, 215), (214, 230, 240), 0, shore)
    c.clouds((255, 255, 255), shore - 0.1, c.between(-0.4, 0.1))
    c.peaks(shore - 0.16, 0.12, (100, 112, 136))
    wood = c.fade((70, 116, 80), (40, 84, 60), shore - 0.08, shore)
    c.ground(c.outline(shore - 0.06, 0.03, 0.8), wood, 0.15 * c.noise())
    c.conifers(shore, 0.07, (28, 62, 44), 40)
    mirrored = np.clip(2 * int(shore * c.height) - np.arange(c.height), 0, c.height - 1)
    c.water(shore, c.pixels[:, mirrored] * np.float32(0.72) + c.colour((6, 26, 40)), 0.09)


def _meadow(c: Canvas) -> None:
    hill = c.between(0.42, 0.52)
    c.pixels[:] = c.fade((80, 155, 230), (208, 232, 246), 0, hill)
    c.clouds((255, 255, 255), hill, c.between(-0.1, 0.35))
    far, near = c.fade((110, 160, 120), (120, 180, 90), hill - 0.1, hill), c.fade((150, 190, 84), (64, 122, 44), hill)
    c.ground(c.outline(hill - 0.05, 0.05, 0.5), far, 0.06 * c.noise())
    c.ground(c.outline(hill, 0.04, 0.4), near, 0.14 * c.noise(3, 0.6))
    hues = np.array(((236, 60, 60), (250, 214, 60), (250, 250, 250), (170, 90, 210)))
    for hue in hues[c.rng.permutation(4)[:2], :, None, None]:
        depth = c.rng.uniform(0.15, 1, 120) ** 0.6
        tops = ((hill + 0.02 + (0.98 - hill) * depth) * c.height).astype(int)
        lefts = c.rng.integers(0, c.x.size, 120)
        for top, left, size in zip(tops, lefts, np.ceil(0.018 * depth * c.height).astype(int), strict=True):
            c.pixels[:, top : top + size, left : left + size] = hue


def _mountains(c: Canvas) -> None:
    c.pixels[:] = c.fade((50, 104, 186), (214, 224, 236), 0, 0.65)
    c.clouds((250, 250, 252), 0.5, c.between(-0.5, 0))
    c.peaks(0.42, 0.16, (130, 142, 166))
    c.peaks(0.58, 0.2, (84, 90, 108))
    c.ground(c.outline(0.82, 0.06, 0.5), c.fade((70, 96, 70), (40, 60, 40), 0.78), 0.2 * c.noise(2, 2))


def _sunset(c: Canvas) -> None:
    sea = c.between(0.55, 0.66)
    x, y = c.between(0.25, c.right - 0.25), sea - c.between(0.0, 0.14)
    c.pixels[:] = c.fade((70, 40, 110), (255, 150, 50), 0, sea)
    c.clouds((226, 80, 90), sea - 0.08, c.between(-0.2, 0.2))
    c.disc(x, y, c.between(0.07, 0.1), (255, 232, 130), 0.13)
    c.water(sea, c.fade((190, 80, 60), (50, 24, 60), sea, 1), 0.16)
    c.glitter(sea, x, (255, 206, 110), 0.07)
    headland = c.outline(sea - 0.02, 0.05, 0.5) + 0.4 * np.abs(c.x - c.rng.choice((0, c.right)))
    c.ground(headland, c.colour((40, 20, 40)))


_PAINTERS: dict[str, Callable[[Canvas], None]] = {
    "aurora": _aurora,
    "beach": _beach,
    "canyon": _canyon,
    "city": _city,
    "desert": _desert,
    "forest": _forest,
    "lake": _lake,
    "meadow": _meadow,
    "mountains": _mountains,
    "sunset": _sunset,
}

CLASSES: tuple[str, ...] = tuple(_PAINTERS)
"""The kinds of landscape, in the order of their labels."""


def paint(scene: str, width: int, height: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A picture of ``scene``, one of :data:`CLASSES`: ``uint8`` ``(height, width, 3)``, RGB."""
    canvas = Canvas(width, height, rng)
    _PAINTERS[scene](canvas)
    return np.ascontiguousarray(canvas.pixels.clip(0, 255).astype(np.uint8).transpose(1, 2, 0))
