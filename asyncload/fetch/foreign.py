"""The one place where exceptions of aiohttp, ssl and the operating system become ours.

Their texts are not passed on: aiohttp's contain whole URLs and request headers, secrets included.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from asyncload.errors import BlockedError, ConnectError, FetchError, FetchTimeout, PayloadError
from asyncload.fetch.guard import AddressRefused

__all__ = ["FOREIGN", "to_fetch_error"]

FOREIGN = (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError, ValueError)
"""What a request may raise. RuntimeError is uvloop's for a descriptor or handle that it finds closed or in use,
ValueError what aiohttp, yarl and the idna codec have for hosts that cannot be looked up."""


def to_fetch_error(error: Exception, host: str, *, answered: bool) -> FetchError:
    """What ``error``, met while asking ``host``, is called here; ``answered``: the body had begun to arrive."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return FetchTimeout(f"{host}: not connected within connect_timeout", reason="connect_timeout")
        case aiohttp.SocketTimeoutError():
            return FetchTimeout(f"{host}: nothing received for read_timeout", reason="read_timeout")
        case TimeoutError():
            return FetchTimeout(f"{host}: not finished within timeout", reason="timeout")
        case aiohttp.ClientConnectorDNSError():
            return ConnectError(f"{host}: name not resolved ({_text(error.os_error)})", reason="dns")
        case aiohttp.ClientConnectorError():
            return _not_connected(error.os_error, host)
        case aiohttp.ServerFingerprintMismatch():
            return ConnectError(f"{host}: certificate not of the expected fingerprint", reason="tls")
        case aiohttp.NonHttpUrlClientError():
            return BlockedError(f"{host}: only http and https are supported", reason="blocked_scheme")
        case aiohttp.ClientPayloadError():
            return PayloadError(f"{host}: body cut short", reason="truncated")
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return PayloadError(f"{host}: the answer is not valid HTTP", reason="protocol")
        case ValueError() if not isinstance(error, OSError):  # ssl.SSLCertVerificationError is both
            return FetchError(f"{host}: not a host that can be asked", reason="bad_url")
    if answered:
        return PayloadError(f"{host}: connection lost before the end of the body", reason="truncated")
    if isinstance(error, OSError) and not isinstance(error, aiohttp.ClientError):
        return _not_connected(error, host)
    return ConnectError(f"{host}: connection lost before an answer", reason="connect")


def _not_connected(error: OSError, host: str) -> FetchError:
    match error:
        case AddressRefused():
            which = host if host == error.address else f"{host}: {error.address}"
            return BlockedError(
                f"{which} is not an address of the public internet; to allow it, use"
                f" Http(allow_hosts=({host!r},)) or Http(allow_private=True)",
                reason="blocked_address",
            )
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError():
            return ConnectError(f"{host}: connection lost during the TLS handshake", reason="connect")
        case ssl.SSLCertVerificationError():
            why = getattr(error, "verify_message", "no reason given")  # OpenSSL sets it, and `reason` below
            return ConnectError(f"{host}: certificate not verified ({why})", reason="tls")
        case ssl.SSLError():
            why = getattr(error, "reason", "no reason given")
            return ConnectError(f"{host}: TLS handshake failed ({why})", reason="tls")
        case socket.gaierror():
            return ConnectError(f"{host}: name not resolved ({_text(error)})", reason="dns")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return ConnectError(
            "too many open files; raise the limit (ulimit -n) or lower Http(connections=...)", reason="connect"
        )
    return ConnectError(f"{host}: not connected ({_text(error)})", reason="connect")


def _text(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return error.strerror or "unknown error"
    return os.strerror(error.errno) if error.errno else "unknown error"
