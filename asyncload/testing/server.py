"""The server: a thread with an event loop that serves generated photographs until it is closed."""

from __future__ import annotations

import asyncio
import mimetypes
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote

from asyncload.testing.connection import Connection, Site
from asyncload.testing.gate import Gate
from asyncload.testing.photographs import Photograph, make_photograph, photograph_name
from asyncload.testing.registry import fault_path, parse_fault
from asyncload.testing.reply import Reply
from asyncload.testing.scenes import CLASSES
from asyncload.testing.traffic import Request

__all__ = ["ImageServer"]

_BACKLOG = 1024


class ImageServer:
    """A local HTTP/1.1 server of generated photographs, with faults chosen by path.

    ::

        with ImageServer(count=300) as server:
            server.pairs()                                # [("http://127.0.0.1:43211/photo/00000.jpg", 0), ...]
            server.fault_url(17, "status", 503, times=2)  # unavailable twice, then photograph 17

    It runs in a thread of its own from the beginning of ``with`` to its end, or to :meth:`close`; it is started once.
    Photographs are landscapes of ten ``classes``: mostly JPEG of every common kind, some PNG and WebP, some to be
    turned by their EXIF orientation. They depend on ``seed`` and their number alone, and are made when they are first
    asked for, at some 5 ms each; :meth:`prepare` makes all of them at once.

    ``count`` is how many there are. ``size`` is the least and the greatest length of their longer sides, in pixels;
    the default gives files of some 50 KB, as on the web, while ``(64, 96)`` makes tests quick. ``port`` 0 takes a free
    one. With a ``folder``, its files are served too, under ``/``.

    The beginning of ``with`` raises ``OSError`` where the address cannot be had.
    """

    def __init__(
        self,
        count: int = 300,
        seed: int = 0,
        *,
        size: tuple[int, int] = (320, 1024),
        folder: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        if count < 0 or seed < 0:
            raise ValueError(f"ImageServer: expected count and seed of at least 0, got {count} and {seed}")
        if not 16 <= size[0] <= size[1]:
            raise ValueError(f"ImageServer: expected size=(least, greatest) of at least 16 pixels, got {size}")
        self._count = count
        self._seed = seed
        self._size = size
        self._folder = None if folder is None else Path(folder).resolve(strict=True)
        self._host = host
        self._port = port
        self._paths = [f"/photo/{photograph_name(number)}" for number in range(count)]
        self._numbers = {path: number for number, path in enumerate(self._paths)}
        self._photographs: dict[int, Photograph] = {}
        self._site = Site(self._answer)
        self._arrivals: set[asyncio.Task[Any]] = set()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ImageServer:
        if self._thread is not None:
            raise RuntimeError("ImageServer: expected to be started once, got a second start; make another one")
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._listener = socket.create_server((self._host, self._port), family=family, backlog=_BACKLOG)
        self._port = self._listener.getsockname()[1]
        self._loop = _new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"ImageServer:{self._port}", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, drop every connection, end the thread. Calling it again does nothing."""
        if self._thread is None or self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # Photographs and where they are

    @property
    def url(self) -> str:
        """``"http://127.0.0.1:43211"``, without a slash at its end."""
        self._check_started()
        return f"http://[{self._host}]:{self._port}" if ":" in self._host else f"http://{self._host}:{self._port}"

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels: ``classes[label]`` is what a photograph shows."""
        return CLASSES

    @property
    def labels(self) -> list[int]:
        """The label of each photograph; every class has as many as any other, or one more."""
        return [number % len(CLASSES) for number in range(self._count)]

    def url_of(self, photo: int | str) -> str:
        """The URL of a photograph, by its number, or of any path on this server."""
        return self.url + self._path_of(photo)

    def urls(self, n: int | None = None) -> list[str]:
        """The URLs of the first ``n`` photographs (all of them). Raises ``ValueError`` if there are fewer."""
        if n is not None and not 0 <= n <= self._count:
            raise ValueError(f"urls: expected n from 0 to {self._count}, the server's count, got {n}")
        return [self.url + path for path in self._paths[:n]]

    def pairs(self, n: int | None = None) -> list[tuple[str, int]]:
        """``(url, label)`` of the first ``n`` photographs (all of them). Raises ``ValueError`` if there are fewer."""
        return list(zip(self.urls(n), self.labels, strict=False))

    def fault_url(
        self, photo: int | str, fault: str, value: object = None, /, *, times: int | None = None, **arguments: object
    ) -> str:
        """The URL of a photograph with a fault: ``fault_url(17, "status", 503, retry_after=2, times=1)``.

        ``photo`` is a number, or a path or URL of this server, which may have a fault already. ``value`` is the fault's
        first argument. With ``times`` only so many requests meet the fault, counted by the whole path, and anew after
        :meth:`reset_counts`. The faults are in the table of :mod:`asyncload.testing.faults`; anything else raises
        ``ValueError``.
        """
        return self.url + fault_path(self._path_of(photo), fault, value, **arguments, times=times)

    def photograph(self, number: int) -> Photograph:
        """Photograph ``number``: its bytes, and what they are. Raises ``IndexError`` if there is no such number."""
        if number not in self._photographs:
            number = self._checked(number)
            self._photographs[number] = make_photograph(self._seed, number, self._size)
        return self._photographs[number]

    def image(self, number: int) -> bytes:
        """The file that is served as photograph ``number``."""
        return self.photograph(number).data

    def prepare(self) -> None:
        """Make all photographs now, so that the first request for each is as quick as any later one."""
        for number in range(self._count):
            self.photograph(number)

    # What the server saw

    @property
    def requests(self) -> list[Request]:
        """The last 10,000 requests, in the order in which they arrived."""
        return self._site.traffic.requests

    @property
    def connections(self) -> int:
        """How many connections were accepted."""
        return self._site.traffic.connections

    @property
    def peak_connections(self) -> int:
        """The largest number of connections that were open at once."""
        return self._site.traffic.peak_connections

    @property
    def peak_concurrent(self) -> int:
        """The largest number of requests that were in progress at once.

        A request is in progress from its arrival until the last byte of its answer is written, or the client has gone.
        """
        return self._site.traffic.peak_concurrent

    def count(self, photo: int | str | None = None) -> int:
        """How many requests arrived for a photograph (by number), a path or a URL; or in all."""
        return self._site.traffic.count(None if photo is None else unquote(self._path_of(photo)))

    def reset_counts(self) -> None:
        """Forget all requests; what is open or in progress now is where the peaks begin."""
        self._site.traffic.reset()

    def hold(self, *photos: int | str) -> Gate:
        """Hold the requests for these photographs (numbers), paths or URLs, or for all, until the gate is released."""
        self._check_started()
        held = {unquote(self._path_of(photo)) for photo in photos}
        gate = Gate(self._loop, lambda path: not held or path in held)
        self._site.gates.append(gate)
        return gate

    # In the server's thread

    async def _listen(self) -> None:
        # Not loop.create_server: closing that loses the connections it has accepted and not yet handed over.
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # the client has gone already, or there are no descriptors left
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        arrival = self._loop.create_task(self._loop.connect_accepted_socket(lambda: Connection(self._site), client))
        self._arrivals.add(arrival)
        arrival.add_done_callback(self._arrivals.discard)

    async def _shut(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()
        await asyncio.gather(*self._arrivals, return_exceptions=True)
        await asyncio.gather(*(connection.abort() for connection in self._site.connections))

    def _answer(self, target: str, nth: int) -> Reply:
        try:
            return self._reply(target, nth)
        except ValueError as error:  # no such fault, or not with these arguments
            reply = Reply(target)
            reply.set_status(400, str(error))
            return reply

    def _reply(self, target: str, nth: int) -> Reply:
        call = parse_fault(target)
        if call is not None:
            reply = self._reply(call.rest, nth)
            if call.times is None or nth <= call.times:
                reply.path, reply.rest = target, call.rest
                call.apply(reply)
            return reply

        reply = Reply(target)
        path = target.partition("?")[0]
        if path in self._numbers:
            photograph = self.photograph(self._numbers[path])
            reply.set_body(photograph.data, photograph.content_type)
            self._site.ready[path] = (reply.head(), reply.body)
        elif path == "/":
            reply.set_body(self._index().encode(), "text/html; charset=utf-8")
        elif (file := self._file(path)) is not None:
            reply.set_body(file.read_bytes(), mimetypes.guess_type(file)[0] or "application/octet-stream")
        else:
            reply.set_status(404)
        return reply

    def _index(self) -> str:
        pictures = "\n".join(
            f'<a href="{path}"><img src="{path}" alt="{CLASSES[label]}" height="120" loading="lazy"></a>'
            for path, label in zip(self._paths, self.labels, strict=True)
        )
        return f"<!doctype html>\n<title>ImageServer</title>\n<h1>{self._count} photographs</h1>\n{pictures}\n"

    def _file(self, path: str) -> Path | None:
        if self._folder is None:
            return None
        file = (self._folder / unquote(path).lstrip("/")).resolve()
        return file if file.is_relative_to(self._folder) and file.is_file() else None

    def _path_of(self, photo: int | str) -> str:
        if isinstance(photo, int):
            return self._paths[self._checked(photo)]
        path = photo.removeprefix(self.url)
        if not path.startswith("/"):
            raise ValueError(f"ImageServer: expected a number, a path or a URL at {self.url}, got {photo!r}")
        return quote(path, safe="/%?=&:@+,;")

    def _check_started(self) -> None:
        if self._thread is None:
            raise RuntimeError("ImageServer: expected to be started first; use it in a with statement")

    def _checked(self, number: int) -> int:
        if not 0 <= number < self._count:
            raise IndexError(f"ImageServer: expected a number from 0 to {self._count - 1}, got {number}")
        return number


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.SelectorEventLoop()  # the other kind has no add_reader
    return uvloop.new_event_loop()
