"""One client's connection: requests in, replies out, byte by byte as a fault may want them."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import unquote

from asyncload.testing.gate import Gate
from asyncload.testing.reply import End, Reply
from asyncload.testing.traffic import Traffic

__all__ = ["Connection", "Site"]

_LINGER_0 = struct.pack("ii", 1, 0)  # on, for 0 seconds: closing sends RST and drops what is not sent yet


@dataclass
class Site:
    """What all connections of a server have in common.

    ``answer`` makes the reply to the ``nth`` request for a path, of whatever kind; ``ready`` has those that are sent so
    often that neither a task nor a fault is looked for, as head and body.
    """

    answer: Callable[[str, int], Reply]
    ready: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    gates: list[Gate] = field(default_factory=list)
    connections: set[Connection] = field(default_factory=set)


class Connection(asyncio.Protocol):
    """Reads requests one after another; what cannot be answered from ``Site.ready`` is a task, one at a time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._hang_up = False
        self._flushed = asyncio.Event()
        self._flushed.set()
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # "Flushed" shall mean that the kernel has every byte: only then may the connection be torn down.
        self._transport.set_write_buffer_limits(0)
        self._number = self._site.traffic.opened()
        self._site.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._site.connections.discard(self)
        self._site.traffic.closed()
        if self._task is not None:
            self._task.cancel()
        self._gone.set()

    def pause_writing(self) -> None:
        self._flushed.clear()

    def resume_writing(self) -> None:
        self._flushed.set()

    async def abort(self) -> None:
        self._transport.abort()
        await self._gone.wait()

    def data_received(self, data: bytes) -> None:
        if self._hang_up:
            self._transport.close()
        else:
            self._buffer += data
            self._next_request()

    def _next_request(self) -> None:
        while self._task is None and not self._transport.is_closing():
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            self._buffer = rest
            self._begin(head)

    def _begin(self, head: bytes) -> None:
        site = self._site
        method, target, version = _request_line(head)
        path = unquote(target)
        nth = site.traffic.arrived(method, path, self._number, head)
        last = version != "HTTP/1.1" or b"\r\nconnection: close" in head.lower()
        ready = site.ready.get(target)
        if ready is not None and method == "GET" and not last and not site.gates:
            self._transport.writelines(ready)
            site.traffic.finished()
        else:
            self._task = asyncio.get_running_loop().create_task(self._serve(method, target, path, nth, last))

    async def _serve(self, method: str, target: str, path: str, nth: int, last: bool) -> None:
        try:
            for gate in tuple(self._site.gates):
                await gate.hold(path)
            if method in ("GET", "HEAD"):
                reply = self._site.answer(target, nth)
            else:
                reply = Reply(target, end=End.CLOSE)  # a body may follow, and nobody reads it
                reply.set_status(405 if method else 400)
            await self._send(reply, method != "HEAD")
            await self._finish(End.CLOSE if last and reply.end is End.KEEP else reply.end)
        except Exception:  # of a fault: let the client know at once, and the event loop say what it was
            self._transport.abort()
            raise
        finally:
            self._site.traffic.finished()
            self._task = None
        self._next_request()

    async def _send(self, reply: Reply, with_body: bool) -> None:
        await asyncio.sleep(reply.pause)
        await self._write(reply.head())
        if not with_body:
            return
        for piece in reply.pieces():
            await self._write(piece)
            if reply.rate is not None:
                await asyncio.sleep(len(piece) / reply.rate)
            elif reply.tail:  # which may be endless, and other connections need their turn
                await asyncio.sleep(0)

    async def _write(self, data: bytes) -> None:
        self._transport.write(data)
        await self._flushed.wait()

    async def _finish(self, end: End) -> None:
        match end:
            case End.KEEP:
                return
            case End.HANG_UP:
                self._hang_up = True
            case End.CLOSE:
                self._transport.close()
            case End.RESET:
                client: socket.socket = self._transport.get_extra_info("socket")
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
                self._transport.abort()
            case End.STALL:
                await self._gone.wait()


def _request_line(head: bytes) -> tuple[str, str, str]:
    """Method, target and version; empty where the line is malformed."""
    parts = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", "", "")
