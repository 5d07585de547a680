"""A scripted HTTP server on a raw socket, and time that passes only when it is slept."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

__all__ = ["BODY", "Script", "Server", "Time", "deaf", "listening", "raw", "reply"]

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

BODY = bytes(range(256)) * 20


def raw(*parts: bytes, end: str = "close", gap: float = 0.0) -> Script:
    """Send ``parts`` as they are, ``gap`` seconds apart; then "close" the connection, "keep" it for the next request,
    "reset" it, or "hang" until the client gives up."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(gap)
        if end == "reset":
            linger_none = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_none)
            writer.transport.abort()
        elif end == "hang":
            await reader.read()
        if end in ("close", "hang"):
            writer.close()

    return script


def reply(body: bytes = BODY, status: int = 200, **headers: str) -> Script:
    """A whole answer of HTTP/1.1; ``x_robots_tag="noai"`` adds a header."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return raw("\r\n".join([*lines, "", ""]).encode("latin-1") + body, end="keep")


class Server:
    """Runs the scripts of a target, and remembers what was asked."""

    def __init__(self, port: int, scheme: str) -> None:
        self._base = f"{scheme}://{{}}:{port}"
        self._scripts: dict[str, deque[Script]] = {}
        self.port = port
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections = 0

    def on(self, target: str, *scripts: Script) -> str:
        """Run ``scripts`` for the requests to ``target`` in turn, and the last of them ever after. Returns its URL."""
        self._scripts[target] = deque(scripts)
        return self.url(target)

    def url(self, target: str, host: str = "127.0.0.1") -> str:
        return self._base.format(host) + target

    def count(self, target: str) -> int:
        return sum(asked == target for asked, _ in self.requests)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while not writer.is_closing():
            line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
            target = line.split(" ")[1]
            headers: dict[str, str] = {}
            for name, value in (text.split(": ", 1) for text in lines):
                headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
            self.requests.append((target, headers))
            scripts = self._scripts[target]
            await (scripts.popleft() if len(scripts) > 1 else scripts[0])(reader, writer)


@asynccontextmanager
async def listening(
    context: ssl.SSLContext | None = None, hosts: tuple[str, ...] = ("127.0.0.1",)
) -> AsyncIterator[Server]:
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await server.serve(reader, writer)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.transport.abort()
            tasks.discard(task)

    listener = await asyncio.start_server(serve, hosts, 0, ssl=context)
    server = Server(listener.sockets[0].getsockname()[1], "https" if context else "http")
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)  # transports close their sockets in the next turn


@contextmanager
def deaf() -> Iterator[int]:
    """A port that never answers an attempt to connect."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for one in (first, second):  # the kernel accepts one more than the backlog
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


class Time:
    """Passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
