from __future__ import annotations

import errno
import socket
import ssl
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import client_exceptions
from aiohttp.http_exceptions import BadStatusLine, HttpProcessingError
from yarl import URL

from asyncload.errors import BlockedError, ConnectError, FetchError, FetchTimeout, PayloadError
from asyncload.fetch.foreign import FOREIGN, to_fetch_error
from asyncload.fetch.guard import AddressRefused

SECRET = "https://user:hunter2@h/x?token=hunter2"
KEY: Any = SimpleNamespace(host="h", port=443, ssl=True, is_ssl=True)
INFO = aiohttp.RequestInfo(URL(SECRET), "GET", None, URL(SECRET))  # type: ignore[arg-type]


def _tree(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(_tree(child) for child in kind.__subclasses__()))


def _made(kind: type[Exception]) -> Exception:
    """One exception of ``kind`` as aiohttp makes it, its text full of secrets where it takes one."""
    if issubclass(kind, client_exceptions.ClientConnectorCertificateError):
        return kind(KEY, ssl.SSLCertVerificationError(1, SECRET))
    if issubclass(kind, client_exceptions.UnixClientConnectorError):
        return kind("/path", KEY, OSError(errno.ECONNREFUSED, SECRET))
    if issubclass(kind, aiohttp.ClientSSLError):
        return kind(KEY, ssl.SSLError(1, SECRET))
    if issubclass(kind, aiohttp.ClientConnectorError):
        return kind(KEY, OSError(errno.ECONNREFUSED, SECRET))
    if issubclass(kind, aiohttp.ClientResponseError):
        return kind(INFO, (), status=400, message=SECRET)
    if issubclass(kind, aiohttp.ServerFingerprintMismatch):
        return kind(b"", b"", "h", 443)
    if issubclass(kind, aiohttp.ClientOSError):
        return kind(errno.ECONNRESET, SECRET)
    return kind(SECRET)


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("kind", sorted(_tree(aiohttp.ClientError), key=lambda kind: kind.__name__))
def test_every_exception_of_aiohttp_is_translated(kind: type[Exception], answered: bool) -> None:
    error = _made(kind)
    assert isinstance(error, FOREIGN)
    translated = to_fetch_error(error, "h", answered=answered)
    assert type(translated) in (FetchError, ConnectError, FetchTimeout, PayloadError, BlockedError)
    assert translated.reason in type(translated).__doc__  # type: ignore[operator]
    assert str(translated)
    assert "hunter2" not in str(translated)


def _connecting(error: OSError) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(KEY, error)


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (aiohttp.ConnectionTimeoutError(), FetchTimeout, "connect_timeout"),
        (aiohttp.SocketTimeoutError(), FetchTimeout, "read_timeout"),
        (aiohttp.ServerTimeoutError(), FetchTimeout, "timeout"),
        (TimeoutError(), FetchTimeout, "timeout"),
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "unknown")), ConnectError, "dns"),
        (aiohttp.ClientConnectorDNSError(KEY, OSError(None, "DNS lookup failed")), ConnectError, "dns"),
        (socket.gaierror(-2, "unknown"), ConnectError, "dns"),
        (_connecting(AddressRefused("10.0.0.1")), BlockedError, "blocked_address"),
        (_connecting(OSError(errno.EMFILE, "")), ConnectError, "connect"),
        (_connecting(OSError("Multiple exceptions: ...")), ConnectError, "connect"),
        (_connecting(ConnectionResetError(errno.ECONNRESET, "")), ConnectError, "connect"),
        (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLEOFError(8, "")), ConnectError, "connect"),
        (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "")), ConnectError, "tls"),
        (ssl.SSLCertVerificationError(1, ""), ConnectError, "tls"),
        (ssl.SSLError(1, ""), ConnectError, "tls"),
        (aiohttp.ServerFingerprintMismatch(b"", b"", "h", 1), ConnectError, "tls"),
        (ConnectionResetError(errno.ECONNRESET, ""), ConnectError, "connect"),
        (aiohttp.ServerDisconnectedError(), ConnectError, "connect"),
        (RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed"), ConnectError, "connect"),
        (BadStatusLine(SECRET), PayloadError, "protocol"),
        (HttpProcessingError(), PayloadError, "protocol"),
        (aiohttp.ClientPayloadError(SECRET), PayloadError, "truncated"),
        (aiohttp.InvalidURL(SECRET), FetchError, "bad_url"),
        (ValueError(SECRET), FetchError, "bad_url"),
        (UnicodeError("label empty or too long"), FetchError, "bad_url"),
    ],
)
def test_what_it_is_called_here(error: Exception, kind: type[FetchError], reason: str) -> None:
    assert isinstance(error, FOREIGN)
    translated = to_fetch_error(error, "h", answered=False)
    assert (type(translated), translated.reason) == (kind, reason)
    assert "hunter2" not in str(translated)


@pytest.mark.parametrize(
    "error", [RuntimeError("closed"), ConnectionResetError(), aiohttp.ServerDisconnectedError(), OSError(5, "")]
)
def test_a_connection_lost_within_the_body_cuts_it_short(error: Exception) -> None:
    translated = to_fetch_error(error, "h", answered=True)
    assert (type(translated), translated.reason) == (PayloadError, "truncated")


def test_the_message_says_what_to_do() -> None:
    refused = to_fetch_error(_connecting(AddressRefused("10.0.0.1")), "cdn.internal", answered=False)
    assert "cdn.internal: 10.0.0.1 is not" in str(refused)
    assert "Http(allow_hosts=('cdn.internal',))" in str(refused)
    assert "Http(allow_private=True)" in str(refused)
    full = to_fetch_error(_connecting(OSError(errno.EMFILE, "")), "h", answered=False)
    assert "ulimit -n" in str(full)
