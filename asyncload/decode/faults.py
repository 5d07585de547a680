"""What the codecs say when something is wrong, in our words."""

from __future__ import annotations

import re

from PIL import Image as PillowImage

from asyncload.errors import DecodeError

__all__ = ["as_decode_error"]

_ENDS_EARLY = re.compile(
    r"truncated|premature|incomplete|unexpected end|end of (?:file|data|stream)|not enough|not large enough"
    r"|requires a buffer|index out of range|no more images|chunk b'.{0,3}'",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(
    "conversion from|unknown pixel mode|cannot handle|not supported|unsupported (?!marker)", re.IGNORECASE
)


def as_decode_error(error: Exception, name: str) -> DecodeError:
    """The :class:`DecodeError` for whatever a codec raised on a file of format ``name``."""
    if isinstance(error, DecodeError):
        return error
    if isinstance(error, MemoryError):
        return DecodeError(f"{name}: no memory for its pixels; lower Decode.max_pixels", reason="too_many_pixels")
    if isinstance(error, (PillowImage.DecompressionBombError, PillowImage.DecompressionBombWarning)):
        return DecodeError(f"{name}: {error} The limit is PIL.Image.MAX_IMAGE_PIXELS", reason="too_many_pixels")
    text = str(error) or "the file is damaged"
    if isinstance(error, EOFError) or _ENDS_EARLY.search(text):
        reason = "truncated"
    else:
        reason = "unsupported_format" if _UNSUPPORTED.search(text) else "corrupt"
    return DecodeError(f"{name}: {type(error).__name__}: {text}", reason=reason)
