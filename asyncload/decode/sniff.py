"""Which format the first bytes say it is; names, extensions and content types are often wrong."""

from __future__ import annotations

import re

from asyncload.errors import DecodeError

__all__ = ["sniff"]

_DECODED = re.compile(
    rb"""(?P<JPEG>\xff\xd8\xff)
    |(?P<PNG>\x89PNG\r\n\x1a\n)
    |(?P<WebP>RIFF.{4}WEBP)
    |(?P<GIF>GIF8[79]a)
    |(?P<BMP>BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0)
    |(?P<TIFF>II[*+]\0|MM\0[*+])""",
    re.VERBOSE | re.DOTALL,
)


_REFUSED = {
    "PSD": rb"8BPS\0",
    "JPEG 2000": rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51",
    "JPEG XL": rb"\0\0\0\x0cJXL |\xff\x0a",
    "JPEG XR": rb"II\xbc",
    "AVIF": rb".{4}ftypavi[fs]",
    "HEIC": rb".{4}ftyp(?:hei[cmsx]|hev[cmsx]|mif1|msf1)",
    "ICO": rb"\0\0[\x01\x02]\0[^\0]",
    "OpenEXR": rb"v/1\x01",
    "Radiance HDR": rb"#\?RADIANCE|#\?RGBE",
    "DDS": rb"DDS ",
    "PNM": rb"P[1-7]\s",
}

_NO_IMAGE = {
    "HTML": rb"(?i:<!doctype\s+html|<html|<head|<body)",
    "SVG": rb"(?i:(?:<[?!][^>]*>\s*)*<svg)",
    "XML": rb"<[?!a-zA-Z]",
    "JSON": rb"[{\[]",
    "PDF": rb"%PDF",
    "PostScript": rb"%!PS|\xc5\xd0\xd3\xc6",
    "gzip": rb"\x1f\x8b",
    "zip": rb"PK\x03\x04",
    "MP4 video": rb".{4}ftyp",
}


def sniff(data: memoryview, *, tiff: bool = False) -> str:
    """``"JPEG"``, ``"PNG"``, ``"WebP"``, ``"GIF"``, ``"BMP"`` or, where ``tiff``, ``"TIFF"``.

    Raises :class:`DecodeError`: ``unsupported_format`` for an image that is not decoded here, ``not_image`` otherwise.
    """
    match = _DECODED.match(data)
    if match is not None and match.lastgroup is not None:
        name = match.lastgroup
        if name == "TIFF" and not tiff:
            raise DecodeError("TIFF is refused; set Decode(tiff=True) to decode it", reason="unsupported_format")
        return name
    start = bytes(data[:512])
    for name, pattern in _REFUSED.items():
        if re.match(pattern, start, re.DOTALL):
            raise DecodeError(
                f"{name} is not decoded; convert the file to JPEG, PNG or WebP", reason="unsupported_format"
            )
    if not start:
        raise DecodeError("expected an image, got 0 bytes", reason="not_image")
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    looks = next((f"; it looks like {name}" for name, p in _NO_IMAGE.items() if re.match(p, text, re.DOTALL)), "")
    raise DecodeError(
        f"expected a JPEG, PNG, WebP, GIF or BMP, got {len(data):,} bytes that start with {start[:16]!r}{looks}",
        reason="not_image",
    )
