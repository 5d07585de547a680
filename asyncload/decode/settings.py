"""What a decoder accepts."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """The limits and tolerances of decoding.

    ``max_pixels``: the largest width times height, in pixels, read from the header before memory is asked for.
    Default 100,000,000: more than all but a few cameras have, and small enough that the 300 MB of its RGB pixels fit
    beside those of a few other workers. A file of some kilobytes may claim 4 gigapixels.

    ``max_scans``: the most passes over the picture that a JPEG may consist of. Default 100: encoders write about
    10, and each costs the decoder a walk over the whole picture for as little as a few bytes of the file.

    ``tiff``: decode TIFF too. Default ``False``: its many sub-formats make it the largest target for hostile files
    among the formats here, and hardly any server means a photograph when it sends one.

    ``tolerate_truncated``: deliver the pixels there are of a file that ends early or is damaged, as far as its codec
    allows; what is missing is grey or black. Default ``False``: a model should not learn from half a photograph.

    Raises ``TypeError`` or ``ValueError`` for a value that cannot be meant.
    """

    max_pixels: int = 100_000_000
    max_scans: int = 100
    tiff: bool = False
    tolerate_truncated: bool = False

    def __post_init__(self) -> None:
        for name in ("max_pixels", "max_scans"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"Decode: expected {name} to be an int, got {value!r}")
            if value < 1:
                raise ValueError(f"Decode: expected {name} to be at least 1, got {value}")
        for name in ("tiff", "tolerate_truncated"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"Decode: expected {name} to be True or False, got {value!r}")
