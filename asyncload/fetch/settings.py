"""Http: the settings of the network, checked once."""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from asyncload import __version__

__all__ = ["Http"]

MIB = 1024 * 1024

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_OURS = frozenset(
    ["accept-encoding", "connection", "content-length", "host", "range", "te", "transfer-encoding", "upgrade"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """How images are fetched: how many at once, how long to wait, what to refuse.

    Many at once:

    - ``connections=256``: sockets in all. With 100 ms to the server that is some 2,500 images a second, more than one
      machine decodes; it fits into the usual limit of 1,024 open files.
    - ``per_host=64``: sockets to one host. Few servers serve more from one address before they throttle.
    - ``buffer_bytes=256 MiB``: bodies downloaded, or being downloaded, and not yet decoded: 2,400 photographs of the
      size of ImageNet's, or four of ``max_bytes``. At least ``max_bytes``, so that every body fits.

    How long:

    - ``timeout=30.0`` seconds for one attempt, its redirects included: 3 MB at 100 kB/s.
    - ``deadline=120.0`` seconds for all attempts and the pauses between them. Queueing for a socket counts towards
      neither: it is our own doing, and not a fault of the server's.
    - ``connect_timeout=5.0`` seconds to connect to one address, TLS included: a lost SYN is repeated after 1 and 3 s.
    - ``read_timeout=10.0`` seconds: the longest gap between two pieces, and before the answer begins.
    - ``min_rate=1024`` bytes per second, over each ``read_timeout`` of a body: a peer that sends a byte now and then
      passes every gap. 0 is off.

    Again:

    - ``retries=3``: attempts after the first. Clients of object stores make three to five in all.
    - ``max_redirects=5``: enough for http to https to a CDN to a signed URL, and few enough to end a loop soon.

    What is sent:

    - ``headers={}``: sent to the origin that the URL names, and dropped for good once a redirect leaves it. Not shown
      by ``repr``: they are often secrets.
    - ``user_agent="asyncload/<version> (+https://pypi.org/project/asyncload/)"``: says who asks, so that an operator
      can tell and can ask back.

    What is refused:

    - ``max_bytes=64 MiB``: a larger body or file. Six hundred times the average of ImageNet (110 kB): what is larger
      is no photograph, and a body without an end is cut off here.
    - ``verify=True``: certificates that cannot be verified. ``False`` accepts any; an ``ssl.SSLContext`` decides
      itself (and cannot be pickled).
    - ``allow_private=False``: private, loopback, link-local and other addresses that are not on the public internet,
      also when a redirect or a DNS answer leads there: a list of URLs is data of others, and shall not reach a cloud's
      metadata service or an intranet. ``True`` allows all.
    - ``allow_hosts=()``: host names or addresses, as they stand in the URL, for which such addresses are allowed.
    - ``allow_files=True``: local paths and ``file:`` URLs. Set it to ``False`` where others give the URLs, as in a
      service: what they name is read with the rights of this process. A redirect never leads to a file.
    - ``respect_robots_tag=True``: images whose ``X-Robots-Tag`` says noai, noimageai, noindex, noimageindex or none.

    Raises ``TypeError`` or ``ValueError`` naming the field, what was expected and what was given.
    """

    connections: int = 256
    per_host: int = 64
    timeout: float = 30.0
    deadline: float = 120.0
    connect_timeout: float = 5.0
    read_timeout: float = 10.0
    min_rate: int = 1024
    retries: int = 3
    max_bytes: int = 64 * MIB
    max_redirects: int = 5
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    user_agent: str = f"asyncload/{__version__} (+https://pypi.org/project/asyncload/)"
    verify: bool | ssl.SSLContext = True
    allow_private: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_files: bool = True
    respect_robots_tag: bool = True
    buffer_bytes: int = 256 * MIB

    def __post_init__(self) -> None:
        for name in ("connections", "per_host", "max_bytes", "buffer_bytes"):
            _check_integer(name, getattr(self, name), least=1)
        for name in ("min_rate", "retries", "max_redirects"):
            _check_integer(name, getattr(self, name), least=0)
        for name in ("timeout", "deadline", "connect_timeout", "read_timeout"):
            _check_seconds(name, getattr(self, name))
        for name in ("allow_private", "allow_files", "respect_robots_tag"):
            _check_type(name, getattr(self, name), bool, "True or False")
        _check_type("verify", self.verify, (bool, ssl.SSLContext), "True, False or an ssl.SSLContext")
        _check_type("user_agent", self.user_agent, str, "a string")
        _check_header_value("user_agent", self.user_agent)
        if self.buffer_bytes < self.max_bytes:
            raise ValueError(
                f"Http: buffer_bytes: expected at least max_bytes ({self.max_bytes}), got {self.buffer_bytes}"
            )
        object.__setattr__(self, "headers", _checked_headers(self.headers))
        object.__setattr__(self, "allow_hosts", _checked_hosts(self.allow_hosts))

    def __reduce__(self) -> tuple[Any, ...]:
        # The read-only view of the headers cannot be pickled.
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _rebuild, ({**values, "headers": dict(self.headers)},)


def _rebuild(values: dict[str, Any]) -> Http:
    return Http(**values)


def _check_type(name: str, value: object, types: type | tuple[type, ...], expected: str) -> None:
    if not isinstance(value, types):
        raise TypeError(f"Http: {name}: expected {expected}, got {value!r}")


def _check_integer(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"Http: {name}: expected an integer, got {value!r}")
    if value < least:
        raise ValueError(f"Http: {name}: expected at least {least}, got {value}")


def _check_seconds(name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"Http: {name}: expected a number of seconds, got {value!r}")
    if not 0 < value < math.inf:
        raise ValueError(f"Http: {name}: expected a positive, finite number of seconds, got {value}")


def _check_header_value(name: str, value: str) -> None:
    # The value may be a secret, so it is not repeated.
    if not value.isprintable() or not value.strip():
        raise ValueError(f"Http: {name}: expected printable text on one line, got something else")


def _checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(headers, Mapping):
        raise TypeError(f"Http: headers: expected a mapping of names to values, got a {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"Http: headers: expected strings, got {name!r} with a {type(value).__name__}")
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"Http: headers: expected the name of a header, got {name!r}")
        if name.lower() in _OURS:
            raise ValueError(f"Http: headers: {name!r} is set for each request and cannot be given")
        _check_header_value(f"headers[{name!r}]", value)
    return MappingProxyType(dict(headers))


def _checked_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    if isinstance(hosts, str) or not isinstance(hosts, Iterable):
        raise TypeError(f"Http: allow_hosts: expected a tuple of host names, got {hosts!r}")
    names = tuple(hosts)
    for name in names:
        _check_type("allow_hosts", name, str, "host names")
        if not name or "/" in name or "@" in name or name.count(":") == 1:
            raise ValueError(f"Http: allow_hosts: expected a host without scheme, port and path, got {name!r}")
    return tuple(name.lower().strip("[]") for name in names)
