"""What the warnings of libjpeg mean for the pixels.

libjpeg goes on after a warning, and hands out the text of the first one only, so the text has to say whether a
picture that came with a warning is all there. The texts have been the same since libjpeg 6b (``jerror.h``).
"""

from __future__ import annotations

import re

__all__ = ["is_warning", "leaves_image_whole", "loses_pixels"]

_WARNING = re.compile(
    "Corrupt JPEG data|Premature end of JPEG file|Warning: unknown JFIF revision|Unknown Adobe color transform"
    "|Inconsistent progression sequence|Invalid SOS parameters"
)
_LOSS = re.compile("premature end of data segment|bad Huffman code|bad arithmetic code|instead of RST")
_SURPLUS_AT_THE_END = re.compile("extraneous bytes before marker 0xd9")


def is_warning(text: str) -> bool:
    """Whether the picture was decoded to its end in spite of ``text``.

    An error that follows a warning has the warning's code in TurboJPEG, but its own text.
    """
    return _WARNING.match(text) is not None


def loses_pixels(text: str) -> bool:
    """Whether pixels are certainly missing or wrong: the coded data ended early, or cannot be understood."""
    return _LOSS.search(text) is not None


def leaves_image_whole(text: str) -> bool:
    """Whether nothing is certainly missing.

    Surplus bytes before the end-of-image marker (0xd9) are met when every pixel has been decoded, and would not be
    the first warning if anything had been wrong before. Any other harmless warning, such as that for an unknown
    JFIF revision, may hide a later one that is not.
    """
    return _SURPLUS_AT_THE_END.search(text) is not None
