"""Names to addresses, in threads of our own.

The event loops' own look-ups share few threads: of libuv's four, two may be looking up slow names at a time, so a list
of URLs on thousands of hosts would wait for names most of the time.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["Resolver"]

_THREADS = 32  # look-ups wait, they do not compute


class Resolver(AbstractResolver):
    """``socket.getaddrinfo`` in up to 32 threads, which are started when they are needed."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="asyncload-dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of ``host`` as the operating system has them. Raises ``socket.gaierror``."""
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port, family)
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=family, proto=protocol, flags=socket.AI_NUMERICHOST
            )
            for family, protocol, address in found
        ]

    async def close(self) -> None:
        # A look-up cannot be interrupted; its thread ends with it.
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[tuple[int, int, str]]:
    # AI_ADDRCONFIG: no IPv6 addresses on a machine that has no IPv6.
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    # getnameinfo keeps the zone of a link-local IPv6 address, without which it cannot be connected to.
    return [(f, p, socket.getnameinfo(a, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]) for f, _, p, _, a in found]
