"""The address guard: no connection to an address that is not on the public internet, however a URL leads there.

It sits where sockets are made, so it sees every address that is really connected to: of literals, of each DNS answer
(an answer may differ from the one before), of redirects.
"""

from __future__ import annotations

import errno
import socket
from contextvars import ContextVar
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from asyncload.fetch.settings import Http

__all__ = ["AddressRefused", "Guard", "is_public", "requested_host"]

requested_host: ContextVar[str] = ContextVar("requested_host", default="")
"""The host in the URL that is being fetched. aiohttp opens its connections in the context of the request."""

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052; the only way to IPv4 for a machine that has IPv6 alone
_IPV4_COMPATIBLE = IPv6Network("::/96")  # RFC 4291, section 2.5.5.1
_REFUSED = (
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of a local network, RFC 8215
    IPv6Network("fec0::/10"),  # site-local, RFC 3879
)


class AddressRefused(PermissionError):
    """Always of the same text: where the refusals of several addresses differ, they are merged into an OSError."""

    def __init__(self, address: str) -> None:
        super().__init__(errno.EPERM, "address refused")
        self.address = address


class Guard:
    """A ``socket_factory`` for aiohttp that obeys ``http.allow_private`` and ``http.allow_hosts``."""

    def __init__(self, http: Http) -> None:
        self._allow_private = http.allow_private
        self._allow_hosts = frozenset(http.allow_hosts)

    def __call__(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, (address, *_) = info
        if not (self._allow_private or requested_host.get() in self._allow_hosts or is_public(address)):
            raise AddressRefused(address)
        return socket.socket(family, kind, protocol)


def is_public(address: str) -> bool:
    """Whether ``address`` is a unicast address of the public internet, the IPv4 address inside an IPv6 one included."""
    try:
        ip = ip_address(address)
    except ValueError:  # a notation that only the operating system understands, as 0x7f.1
        return False
    if isinstance(ip, IPv6Address):
        if any(ip in network for network in _REFUSED):
            return False
        ip = _embedded(ip) or ip
    return ip.is_global and not ip.is_multicast


def _embedded(ip: IPv6Address) -> IPv4Address | None:
    # Teredo needs no case of its own: 2001::/32 as a whole is not global.
    if ip in _NAT64 or ip in _IPV4_COMPATIBLE:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip.sixtofour
