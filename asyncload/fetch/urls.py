"""URLs: which kind, exactly as they were given, and where a redirect leads.

A signed URL is valid in one spelling only, so nothing is quoted, unquoted or put in order that could have been sent
as it stands.
"""

from __future__ import annotations

import re
import string
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import url2pathname

from yarl import URL

from asyncload.errors import BlockedError, FetchError

__all__ = ["is_http", "local_path", "parse_http", "redirect_target"]

_AUTHORITY = re.compile(r"((?:https?:)?//[^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(?=://)|(data|file)(?=:)", re.IGNORECASE)


def is_http(url: str) -> bool:
    return url.startswith(("http://", "https://")) or url[:8].lower().startswith(("http://", "https://"))


def parse_http(url: str) -> URL:
    """``url`` (http or https) with its spelling kept, or ``FetchError`` (``bad_url``)."""
    parsed = _parse(url)
    if parsed is None:
        raise FetchError("expected http(s)://host/path, got a URL that is malformed", reason="bad_url")
    return parsed


def redirect_target(origin: URL, location: str) -> URL:
    """Where the header ``Location: location`` in the answer to ``origin`` leads, without user name and password.

    Raises ``BlockedError``: ``blocked_scheme`` for anything but http and https, ``bad_redirect`` for what is malformed
    or leads from https to http.
    """
    try:
        joined = urljoin(str(origin), location)  # URL.join() would unquote the path
        scheme = urlsplit(joined).scheme
    except ValueError:
        joined = scheme = ""
    if scheme not in ("", "http", "https"):
        raise BlockedError(f"redirected to a {scheme}: URL; only http and https are followed", reason="blocked_scheme")
    target = _parse(joined)
    if target is None:
        raise BlockedError("redirected to something that is no URL", reason="bad_redirect")
    if origin.scheme == "https" and target.scheme == "http":
        raise BlockedError("redirected from https to http; the answer could be anybody's", reason="bad_redirect")
    return target.with_user(None) if target.raw_user is not None or target.raw_password is not None else target


def local_path(url: str) -> str:
    """The path that ``url``, a bare path or a ``file:`` URL, names on this machine.

    Raises ``FetchError`` (``bad_url``) for another machine's file and for every other scheme.
    """
    match = _SCHEME.match(url)
    if match is None:
        return url
    scheme = match[0].lower()
    if scheme != "file":
        raise FetchError(f"expected an http(s) or file URL or a path, got a URL of scheme {scheme!r}", reason="bad_url")
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or parts.netloc.lower() not in ("", "localhost") or not parts.path.startswith("/"):
        raise FetchError("expected file:///path of this machine, got another file URL", reason="bad_url")
    return url2pathname(parts.path)


def _parse(url: str) -> URL | None:
    """``url``, or ``None`` if there is no host that could be asked."""
    try:
        if not (url.isascii() and url.isprintable() and " " not in url):
            url = _quoted(url.strip())
        parsed = URL(url, encoded=True)
        return parsed if parsed.raw_host and parsed.port else None
    except (ValueError, IndexError):  # yarl trips over "http://[::1]@"
        return None


def _quoted(url: str) -> str:
    """``url`` with what cannot be sent, and nothing else, percent-encoded, and the host's name in ASCII."""
    match = _AUTHORITY.fullmatch(url)
    given, rest = match.groups() if match else ("", url)
    if not given.isprintable() or " " in given:
        raise ValueError("not a host")
    authority = str(URL(given)).rstrip("/")
    # Headers are decoded with surrogates for what is not UTF-8: they become the bytes that were received.
    return authority + quote(rest, safe=string.punctuation, errors="surrogateescape")
