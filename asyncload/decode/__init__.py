"""Encoded bytes in, pixels out: the codecs, their limits, and one kind of error for all of them."""

from __future__ import annotations

from asyncload.decode.decoder import Codecs, Decoder, codecs
from asyncload.decode.jpeg import Backend, PillowJpeg, SimpleJpeg
from asyncload.decode.settings import Decode
from asyncload.decode.turbojpeg import TurboJpeg

__all__ = ["Backend", "Codecs", "Decode", "Decoder", "PillowJpeg", "SimpleJpeg", "TurboJpeg", "codecs"]
