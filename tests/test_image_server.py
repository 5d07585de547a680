from __future__ import annotations

import asyncio
import gzip
import http.client
import inspect
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from PIL import Image, ImageOps, JpegImagePlugin, UnidentifiedImageError

from asyncload import testing
from asyncload.testing import FAULTS, ImageServer, Reply
from asyncload.testing.photographs import make_photograph, make_picture

SMALL = (64, 96)
QUIET = 0.15  # seconds of silence that are taken for a stall


@pytest.fixture(scope="module", autouse=True)
def what_stays_open_from_the_first_start_on() -> None:
    with ImageServer(1, size=SMALL):  # libuv's pipe for signals, one a process
        pass


@pytest.fixture(params=["uvloop", "asyncio"])
def event_loop_of_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)  # importing it fails, as on Windows
    else:
        pytest.importorskip("uvloop")


@pytest.fixture
def server(event_loop_of_server: None) -> Iterator[ImageServer]:
    with ImageServer(30, size=SMALL) as server:
        yield server


class Client:
    """A raw socket: what is on the wire, and how the connection ended."""

    def __init__(self, server: ImageServer) -> None:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=5)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, url: str, method: str = "GET", headers: str = "") -> None:
        target = "/" + url.split("/", 3)[3] if url.startswith("http") else url
        self.socket.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())

    def read_until(self, end: bytes) -> bytes:
        data = b""
        while not data.endswith(end):
            data += self.socket.recv(1)
        return data

    def read_exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            assert piece, "closed too early"
            data += piece
        return data

    def read_to_end(self) -> tuple[bytes, str]:
        """Everything that comes, and whether the connection was then "closed", "reset" or "silent"."""
        data = b""
        try:
            while piece := self.socket.recv(65536):
                data += piece
                self.socket.settimeout(QUIET)
        except ConnectionResetError:
            return data, "reset"
        except TimeoutError:
            return data, "silent"
        return data, "closed"


def wire(server: ImageServer, url: str, *, answered: bool = True) -> tuple[bytes, bytes, str]:
    """Head and body as they came, and how the connection ended."""
    with Client(server) as client:
        client.ask(url)
        if not answered:
            client.socket.settimeout(QUIET)
        data, end = client.read_to_end()
    head, _, body = data.partition(b"\r\n\r\n")
    return head, body, end


def get(url: str, method: str = "GET") -> tuple[int, http.client.HTTPMessage, bytes]:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request(method, "/" + path)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


# Photographs


def test_photographs_depend_on_seed_and_number_alone() -> None:
    def files(seed: int) -> list[bytes]:
        make_photograph.cache_clear()
        return [make_photograph(seed, number, SMALL).data for number in reversed(range(20))]

    assert files(0) == files(0)
    assert not set(files(0)) & set(files(1))
    assert len(set(files(0))) == 20


def test_every_kind_of_file_is_among_the_first_40() -> None:
    photographs = [make_photograph(0, number, SMALL) for number in range(40)]
    assert {photo.format for photo in photographs} == {"JPEG", "PNG", "WEBP"}
    assert {photo.mode for photo in photographs} == {"RGB", "L"}
    assert {photo.orientation for photo in photographs} == set(range(1, 9))
    assert {photo.subsampling for photo in photographs} == {"4:2:0", "4:2:2", "4:4:4", None}
    assert {photo.progressive for photo in photographs} == {True, False}
    assert {width > height for width, height in (photo.size for photo in photographs)} == {True, False}


@pytest.mark.parametrize("number", range(24))
def test_a_file_is_what_its_record_says_and_upright(number: int) -> None:
    photo = make_photograph(0, number, SMALL)
    image = Image.open(io.BytesIO(photo.data))
    assert (image.format, image.mode) == (photo.format, photo.mode)
    assert Image.MIME[photo.format] == photo.content_type
    assert image.getexif().get(0x0112, 1) == photo.orientation
    if isinstance(image, JpegImagePlugin.JpegImageFile):
        assert bool(image.info.get("progressive")) == photo.progressive
        if photo.mode == "RGB":
            assert ("4:4:4", "4:2:2", "4:2:0")[JpegImagePlugin.get_sampling(image)] == photo.subsampling

    upright = ImageOps.exif_transpose(image).convert("RGB")
    assert upright.size == photo.size
    picture = make_picture(0, number, SMALL).convert(photo.mode).convert("RGB")

    def difference(other: Image.Image) -> float:
        return float(np.abs(np.asarray(upright, np.int16) - np.asarray(other.resize(upright.size), np.int16)).mean())

    assert difference(picture) < 15
    assert all(difference(picture) < difference(picture.transpose(turn)) for turn in Image.Transpose)


def test_sizes_are_within_the_bounds_and_files_within_reason() -> None:
    photographs = [make_photograph(0, number, (320, 1024)) for number in range(30)]
    assert all(320 <= max(photo.size) <= 1024 for photo in photographs)
    assert 30_000 < np.median([len(photo.data) for photo in photographs]) < 100_000


# Serving


def test_serves_every_photograph_under_its_own_url(server: ImageServer) -> None:
    urls = server.urls()
    assert len(set(urls)) == 30
    for number, url in enumerate(urls):
        photo = server.photograph(number)
        status, headers, body = get(url)
        assert (status, headers["Content-Type"]) == (200, photo.content_type)
        assert body == server.image(number) == photo.data
        assert headers["Content-Length"] == str(len(body))
        assert url.endswith({"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp"}[photo.format])


def test_pairs_and_labels_are_balanced(server: ImageServer) -> None:
    assert Counter(server.labels) == dict.fromkeys(range(len(server.classes)), 3)
    assert server.pairs() == list(zip(server.urls(), server.labels, strict=True))
    assert server.pairs(4) == server.pairs()[:4]
    assert server.urls(2) == [server.url_of(0), server.url_of(1)]
    assert all(server.photograph(number).label == label for number, label in enumerate(server.labels))


def test_prepare_makes_all_at_once(server: ImageServer) -> None:
    server.prepare()
    made = make_photograph.cache_info()
    get(server.urls()[29])
    assert make_photograph.cache_info() == made


def test_head_has_the_same_head_and_no_body(server: ImageServer) -> None:
    for url in (server.url_of(0), server.fault_url(0, "chunked"), server.url_of("/nothing")):
        with Client(server) as client:
            client.ask(url, "HEAD")
            head = client.read_until(b"\r\n\r\n")
            client.ask(url)  # a body would come before this answer
            assert client.read_exactly(len(head)) == head


def test_index_links_every_photograph(server: ImageServer) -> None:
    status, headers, body = get(server.url_of("/"))
    assert (status, headers.get_content_type()) == (200, "text/html")
    assert re.findall(r'href="(.*?)"', body.decode()) == [url.removeprefix(server.url) for url in server.urls()]


def test_says_what_it_cannot_serve(server: ImageServer) -> None:
    assert get(server.url_of("/photo/00099.jpg"))[0] == 404
    assert get(server.url_of(0), "DELETE")[0] == 405
    with Client(server) as client:
        client.socket.sendall(b"what\r\n\r\n")
        assert client.read_to_end()[0].startswith(b"HTTP/1.1 400 ")


def test_a_query_makes_another_path_of_the_same_photograph(server: ImageServer) -> None:
    url = server.url_of(3) + "?signature=a%2Fb"
    assert get(url)[2] == server.image(3)
    assert (server.count(url), server.count(3)) == (1, 0)


def test_connections_are_kept_and_requests_may_come_in_pieces(server: ImageServer) -> None:
    expected = [server.image(0), server.image(1)]
    with Client(server) as client:
        for byte in b"GET /photo/00000.jpg HTTP/1.1\r\nHost: x\r\n\r\n":
            client.socket.sendall(bytes([byte]))
        client.read_until(b"\r\n\r\n")
        assert client.read_exactly(len(expected[0])) == expected[0]
        client.ask(server.fault_url(0, "delay", 0.01))  # two at once, the first of them not ready yet
        client.ask(server.url_of(1))
        for body in expected:
            client.read_until(b"\r\n\r\n")
            assert client.read_exactly(len(body)) == body
    assert server.connections == 1


def test_no_answer_waits_for_an_acknowledgement(server: ImageServer) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=5)
    start = time.monotonic()
    for _ in range(25):  # written in two pieces, between which Nagle's algorithm waits 40 ms
        connection.request("GET", server.fault_url(0, "robots").removeprefix(server.url))
        assert connection.getresponse().read() == server.image(0)
    connection.close()
    assert time.monotonic() - start < 0.8


@pytest.mark.parametrize("request_line_and_headers", ["HTTP/1.0\r\n\r\n", "HTTP/1.1\r\nConnection: Close\r\n\r\n"])
@pytest.mark.parametrize("times", [1, 2])
def test_closes_where_the_client_asked_for_it(server: ImageServer, request_line_and_headers: str, times: int) -> None:
    for _ in range(times):  # the second is answered from memory
        with Client(server) as client:
            client.socket.sendall(f"GET /photo/00000.jpg {request_line_and_headers}".encode())
            data, end = client.read_to_end()
    assert data.endswith(server.image(0))
    assert end == "closed"


def test_ipv6() -> None:
    with ImageServer(1, size=SMALL, host="::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert wire(server, server.url_of(0))[1] == server.image(0)


def test_serves_a_folder_and_nothing_beside_it(tmp_path: Path, event_loop_of_server: None) -> None:
    folder = tmp_path / "images"
    (folder / "a class").mkdir(parents=True)
    (folder / "a class" / "é 1.JPEG").write_bytes(b"one")
    (folder / "plain").write_bytes(b"two")
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    with ImageServer(1, size=SMALL, folder=folder) as server:
        status, headers, body = get(server.url_of("/a class/é 1.JPEG"))
        assert (status, headers["Content-Type"], body) == (200, "image/jpeg", b"one")
        assert server.count("/a class/é 1.JPEG") == 1
        assert get(server.url_of("/plain"))[1]["Content-Type"] == "application/octet-stream"
        assert get(server.fault_url("/plain", "status", 503))[0] == 503
        assert get(server.url_of(0))[2] == server.image(0)
        for path in (
            "/../secret",
            "/%2e%2e/secret",
            "/a class/../../secret",
            "/link",
            "//secret",
            "/a%20class",
            "/%00",
        ):
            with Client(server) as client:
                client.ask(path.replace(" ", "%20"))
                head = client.read_until(b"\r\n")
            assert head.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 ")), path


def test_misuse_raises() -> None:
    for arguments in ({"count": -1}, {"seed": -1}, {"size": (8, 64)}, {"size": (96, 64)}):
        with pytest.raises(ValueError, match="expected"):
            ImageServer(**arguments)
    server = ImageServer(2, size=SMALL)
    for call in (server.urls, server.hold):
        with pytest.raises(RuntimeError, match="with statement"):
            call()
    server.close()  # nothing to do
    with server:
        for call in (server.urls, server.pairs):
            with pytest.raises(ValueError, match="expected n from 0 to 2"):
                call(3)
        for number in (-1, 2):
            with pytest.raises(IndexError, match="from 0 to 1"):
                server.image(number)
        for path in ("photo/00000.jpg", "http://elsewhere/photo/00000.jpg"):
            with pytest.raises(ValueError, match="a path or a URL at"):
                server.count(path)
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"), ImageServer(port=port):
            pass
    with pytest.raises(RuntimeError, match="once"):
        server.__enter__()


# Faults: one test for each, named after it


def test_the_table_of_faults_is_complete() -> None:
    lines = re.findall(r"^    (\w\S*) {2,}\S", inspect.getdoc(testing.faults) or "", re.MULTILINE)
    table = {}
    for line in lines:
        name, *keys = re.findall(r"(?:^|/)(\w+)", line)
        main = re.match(r"\w+=(\w+)", line)
        table[name] = ([main[1].lower()] if main else []) + keys
    for name, spoil in FAULTS.items():
        assert table.pop(name) == list(inspect.signature(spoil).parameters)[1:]
    assert not table
    assert {f"test_{name}" for name in FAULTS} <= set(globals())


@pytest.mark.parametrize("code", [204, 304, 404, 429, 503, 599])
def test_status(server: ImageServer, code: int) -> None:
    status, headers, body = get(server.fault_url(0, "status", code))
    assert status == code
    assert headers["Retry-After"] is None
    assert bool(body) == (code not in (204, 304))


@pytest.mark.parametrize("value", ["7", "Wed, 21 Oct 2065 07:28:00 GMT", "soon; 100% = all/any?"])
def test_status_with_retry_after(server: ImageServer, value: str) -> None:
    assert get(server.fault_url(0, "status", 503, retry_after=value))[1]["Retry-After"] == value


def test_delay(server: ImageServer) -> None:
    start = time.monotonic()
    assert get(server.fault_url(0, "delay", 0.2))[2] == server.image(0)
    assert time.monotonic() - start >= 0.2


def test_stall(server: ImageServer) -> None:
    assert wire(server, server.fault_url(0, "stall"), answered=False) == (b"", b"", "silent")


def test_stall_body(server: ImageServer) -> None:
    assert_half(server, "stall_body", "silent")


def test_truncate(server: ImageServer) -> None:
    assert_half(server, "truncate", "closed")


def test_reset_body(server: ImageServer) -> None:
    assert_half(server, "reset_body", "reset")


def assert_half(server: ImageServer, fault: str, expected_end: str) -> None:
    image = server.image(0)
    head, body, end = wire(server, server.fault_url(0, fault))
    assert b"Content-Length: %d" % len(image) in head
    assert body == image[: len(image) // 2]
    assert end == expected_end


def test_drip(server: ImageServer) -> None:
    size = len(server.image(0))
    start = time.monotonic()
    assert get(server.fault_url(0, "drip", size * 4))[2] == server.image(0)
    assert 0.19 < time.monotonic() - start < 2  # a fifth of a quarter of a second is not waited for


def test_close(server: ImageServer) -> None:
    assert wire(server, server.fault_url(0, "close")) == (b"", b"", "closed")


def test_close_after(server: ImageServer) -> None:
    head, body, end = wire(server, server.fault_url(0, "close_after"))
    assert b"Connection" not in head
    assert (body, end) == (server.image(0), "closed")


def test_close_next(server: ImageServer) -> None:
    with Client(server) as client:
        client.ask(server.fault_url(0, "close_next"))
        client.read_until(b"\r\n\r\n")
        assert client.read_exactly(len(server.image(0))) == server.image(0)
        client.ask(server.url_of(0))
        assert client.read_to_end() == (b"", "closed")
    assert server.count(0) == 0


def test_reset(server: ImageServer) -> None:
    assert wire(server, server.fault_url(0, "reset")) == (b"", b"", "reset")


def test_no_length(server: ImageServer) -> None:
    head, body, end = wire(server, server.fault_url(0, "no_length"))
    assert head.startswith(b"HTTP/1.0 200 OK")
    assert b"Content-Length" not in head
    assert (body, end) == (server.image(0), "closed")


def test_no_length_cut(server: ImageServer) -> None:
    head, body, end = wire(server, server.fault_url(0, "no_length_cut"))
    assert b"Content-Length" not in head
    assert (body, end) == (server.image(0)[: len(server.image(0)) // 2], "closed")


def test_short_length(server: ImageServer) -> None:
    head, body, _ = wire(server, server.fault_url(0, "short_length"))
    assert b"Content-Length: %d" % (len(body) // 2) in head
    assert body == server.image(0)


def test_huge_length(server: ImageServer) -> None:
    head, body, end = wire(server, server.fault_url(0, "huge_length"))
    assert b"Content-Length: 10000000000" in head
    assert (body, end) == (server.image(0), "silent")


def test_endless(server: ImageServer) -> None:
    with Client(server) as client:
        client.ask(server.fault_url(0, "endless"))
        assert b"Content-Length" not in client.read_until(b"\r\n\r\n")
        assert client.read_exactly(len(server.image(0))) == server.image(0)
        assert client.read_exactly(20_000_000) == bytes(20_000_000)
        assert get(server.url_of(1))[2] == server.image(1)  # others are still served


def test_chunked(server: ImageServer) -> None:
    _, headers, body = get(server.fault_url(0, "chunked"))
    assert (headers["Transfer-Encoding"], headers["Content-Length"]) == ("chunked", None)
    assert body == server.image(0)


def test_chunked_broken(server: ImageServer) -> None:
    with pytest.raises(http.client.IncompleteRead) as caught:
        get(server.fault_url(0, "chunked_broken"))
    assert caught.value.partial == server.image(0)[: len(server.image(0)) // 2]


def test_garbage(server: ImageServer) -> None:
    with pytest.raises(http.client.BadStatusLine):
        get(server.fault_url(0, "garbage"))


def test_giant_header(server: ImageServer) -> None:
    head, body, _ = wire(server, server.fault_url(0, "giant_header", 300_000))
    assert re.search(rb"X-Giant: (x+)", head)[1] == b"x" * 300_000
    assert body == server.image(0)


def test_header(server: ImageServer) -> None:
    url = server.fault_url(0, "header", "ETag", value='"v=1/2"; #3')
    assert get(url)[1]["ETag"] == '"v=1/2"; #3'
    status, headers, body = get(server.fault_url(0, "header", "content-type", value="text/plain"))
    assert (status, headers.get_all("Content-Type"), body) == (200, ["text/plain"], server.image(0))


def test_robots(server: ImageServer) -> None:
    assert get(server.fault_url(0, "robots"))[1]["X-Robots-Tag"] == "noai"
    assert get(server.fault_url(0, "robots", "otherbot: noindex, nofollow"))[1]["X-Robots-Tag"] == (
        "otherbot: noindex, nofollow"
    )


def test_gzip(server: ImageServer) -> None:
    _, headers, body = get(server.fault_url(0, "gzip"))
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == server.image(0)


def test_html(server: ImageServer) -> None:
    status, headers, body = get(server.fault_url(0, "html"))
    assert (status, headers["Content-Type"]) == (200, "image/jpeg")
    assert body.startswith(b"<!doctype html>")


def test_empty(server: ImageServer) -> None:
    status, headers, body = get(server.fault_url(0, "empty"))
    assert (status, headers["Content-Length"], body) == (200, "0", b"")


@pytest.mark.parametrize("number", [0, 3, 12])  # JPEG, PNG, WebP
def test_corrupt(server: ImageServer, number: int) -> None:
    _, headers, body = get(server.fault_url(number, "corrupt"))
    assert headers["Content-Length"] == str(len(body)) == str(len(server.image(number)))
    assert body[:12] == server.image(number)[:12]
    with pytest.raises((OSError, SyntaxError, UnidentifiedImageError)):
        Image.open(io.BytesIO(body)).load()


@pytest.mark.parametrize("number", [0, 3, 12])
def test_cut_image(server: ImageServer, number: int) -> None:
    _, headers, body = get(server.fault_url(number, "cut_image"))
    assert headers["Content-Length"] == str(len(body))
    assert body == server.image(number)[: len(server.image(number)) // 2]
    with pytest.raises(OSError, match=r"truncated|could not|cannot identify"):
        Image.open(io.BytesIO(body)).load()


def test_as_png(server: ImageServer) -> None:
    number = next(number for number in range(30) if server.photograph(number).orientation == 6)
    url = server.fault_url(number, "as_png")
    _, headers, body = get(url)
    assert url.endswith(".jpg")
    assert headers["Content-Type"] == "image/jpeg"
    image = Image.open(io.BytesIO(body))
    assert (image.format, image.size) == ("PNG", server.photograph(number).size)


async def test_redirect(server: ImageServer) -> None:
    async with aiohttp.ClientSession() as session:
        for url, hops, number in (
            (server.fault_url(0, "redirect"), 1, 0),
            (server.fault_url(0, "redirect", hops=3, code=308), 3, 0),
            (server.fault_url(0, "redirect", server.url_of(1) + "?a=b&c=%2F", hops=2), 2, 1),
            (server.fault_url(0, "redirect", "/photo/00001.jpg"), 1, 1),
        ):
            async with session.get(url) as response:
                assert await response.read() == server.image(number)
                assert [answer.status for answer in response.history] == [308 if "308" in url else 302] * hops


async def test_redirect_loop(server: ImageServer) -> None:
    url = server.fault_url(0, "redirect_loop")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.TooManyRedirects):
            await session.get(url, max_redirects=5)
    assert server.count(url) == 5


def test_times_counts_the_requests_for_that_path(server: ImageServer) -> None:
    url = server.fault_url(0, "status", 503, times=2)
    other = server.fault_url(1, "status", 503, times=2)
    assert [get(url)[0] for _ in range(4)] == [503, 503, 200, 200]
    assert get(other)[0] == 503
    server.reset_counts()
    assert [get(url)[0] for _ in range(3)] == [503, 503, 200]


def test_faults_compose(server: ImageServer) -> None:
    url = server.fault_url(0, "status", 503, times=2)
    url = server.fault_url(url, "reset", times=1)
    ends = [wire(server, url) for _ in range(3)]
    assert [end for _, _, end in ends] == ["reset", "silent", "silent"]
    assert ends[1][0].startswith(b"HTTP/1.1 503 ")
    assert ends[2][1] == server.image(0)
    url = server.fault_url(server.fault_url(0, "chunked"), "drip", 1e6)
    assert get(url)[2] == server.image(0)


@pytest.mark.parametrize(
    "path",
    [
        "/fault/nothing/photo/00000.jpg",
        "/fault/stall=1/photo/00000.jpg",
        "/fault/status/photo/00000.jpg",
        "/fault/status=many/photo/00000.jpg",
        "/fault/status=503/other=1/photo/00000.jpg",
        "/fault/status=503/times=x/photo/00000.jpg",
    ],
)
def test_a_fault_that_is_not_in_the_table_is_answered_with_400(server: ImageServer, path: str) -> None:
    status, _, body = get(server.url_of(path))
    assert status == 400
    assert body.startswith(b"fault '")


def test_fault_url_raises_for_what_the_server_would_refuse(server: ImageServer) -> None:
    with pytest.raises(ValueError, match="expected one of status, delay"):
        server.fault_url(0, "nothing")
    with pytest.raises(ValueError, match="takes none"):
        server.fault_url(0, "stall", 1)
    with pytest.raises(ValueError, match="expected the arguments code, retry_after, times, got none"):
        server.fault_url(0, "status")
    with pytest.raises(ValueError, match="got code, other"):
        server.fault_url(0, "status", 503, other=1)
    with pytest.raises(ValueError, match="'many'"):
        server.fault_url(0, "status", "many")


def test_a_fault_of_the_users_own(server: ImageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncload.testing.registry.FAULTS", dict(FAULTS))

    @testing.fault
    def teapot(reply: Reply, note: str = "short and stout") -> None:
        reply.set_status(418, note)

    status, _, body = get(server.fault_url(0, "teapot", "here is/my handle"))
    assert (status, body) == (418, b"here is/my handle\n")


async def test_arguments_survive_a_client_that_normalises_urls(server: ImageServer) -> None:
    value = "a,b;c=d&e+f%g h/../i?j#k:@[é]"
    url = server.fault_url(0, "status", 503, retry_after=value, times=1)
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as response:
            assert response.headers["Retry-After"] == value
        async with session.get(url) as response:
            assert response.status == 200
    assert server.count(url) == 2


# What the server saw


def test_counts_and_requests(server: ImageServer) -> None:
    faulty = server.fault_url(1, "status", 404)
    for url in (server.url_of(0), server.url_of(0), faulty):
        get(url)
    assert (server.count(0), server.count(server.url_of(0)), server.count("/photo/00000.jpg")) == (2, 2, 2)
    assert (server.count(faulty), server.count(1), server.count()) == (1, 0, 3)
    assert [request.path for request in server.requests] == ["/photo/00000.jpg"] * 2 + [faulty.removeprefix(server.url)]
    assert [request.connection for request in server.requests] == [1, 2, 3]
    assert [request.time for request in server.requests] == sorted(request.time for request in server.requests)
    assert server.requests[0].method == "GET"
    assert server.requests[0].headers["host"] == server.url.removeprefix("http://")
    server.reset_counts()
    assert (server.count(), server.requests, server.connections) == (0, [], 0)


async def test_peaks(server: ImageServer) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=3)) as session:

        async def fetch(url: str) -> bytes:
            async with session.get(url) as response:
                return await response.read()

        gate = server.hold()
        fetches = [asyncio.create_task(fetch(url)) for url in server.urls(9)]
        await asyncio.to_thread(gate.wait_for_requests, 3)
        assert (server.count(), server.peak_concurrent, server.connections, server.peak_connections) == (3, 3, 3, 3)
        server.reset_counts()
        assert (server.count(), server.peak_concurrent, server.peak_connections) == (0, 3, 3)
        gate.release()
        assert await asyncio.gather(*fetches) == [server.image(number) for number in range(9)]
    assert (server.count(), server.peak_concurrent, server.connections) == (6, 3, 0)


def test_one_request_at_a_time_is_a_peak_of_one(server: ImageServer) -> None:
    for url in server.urls(5):
        get(url)
        get(url)
    assert server.peak_concurrent == 1


# Gates


def test_a_gate_holds_its_path_and_no_other(server: ImageServer) -> None:
    get(server.url_of(3))  # answered from memory from now on
    with server.hold(3) as gate, Client(server) as client:
        client.ask(server.url_of(3))
        gate.wait_for_requests()
        assert get(server.url_of(4))[2] == server.image(4)
        client.socket.settimeout(QUIET)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        gate.release()
        client.socket.settimeout(5)
        client.read_until(b"\r\n\r\n")
        assert client.read_exactly(len(server.image(3))) == server.image(3)
        assert get(server.url_of(3))[2] == server.image(3)


def test_a_gate_may_stand_before_a_fault(server: ImageServer) -> None:
    url = server.fault_url(0, "close")
    gate = server.hold(url, 5)
    with Client(server) as client:
        client.ask(url)
        gate.wait_for_requests()
        gate.release()
        assert client.read_to_end() == (b"", "closed")


def test_a_gate_notices_clients_that_leave(server: ImageServer) -> None:
    gate = server.hold(0)
    with Client(server) as first, Client(server) as second:
        first.ask(server.url_of(0))
        second.ask(server.url_of(0))
        gate.wait_for_requests(2)
        first.socket.close()
        gate.wait_for_disconnect(1)
        with pytest.raises(TimeoutError, match=r"expected 2 disconnects within 0\.01 s, got 1"):
            gate.wait_for_disconnect(2, timeout=0.01)
    gate.wait_for_disconnect(2)
    with pytest.raises(TimeoutError, match=r"expected 3 requests within 0\.01 s, got 2"):
        gate.wait_for_requests(3, timeout=0.01)


def test_a_gate_outlives_its_server() -> None:
    with ImageServer(1, size=SMALL) as server, Client(server) as client:
        gate = server.hold()
        client.ask(server.url_of(0))
        gate.wait_for_requests()
        server.close()
        gate.wait_for_disconnect()
        gate.release()


# The end


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_close_leaves_nothing_whatever_clients_do(event_loop_of_server: None) -> None:
    threads, files = threading.enumerate(), open_files()
    server = ImageServer(4, size=SMALL)
    with server:
        gate = server.hold(2)
        clients = []
        for url in (
            *(server.fault_url(0, fault) for fault in ("stall", "stall_body", "huge_length", "endless", "close_next")),
            server.fault_url(0, "drip", 1.0),
            server.fault_url(0, "delay", 1000.0),
            server.url_of(2),
            server.url_of(0),
        ):
            client = Client(server)
            client.ask(url)
            clients.append(client)
        gate.wait_for_requests()
        clients.append(Client(server))  # says nothing
        clients.append(Client(server))
        clients[-1].socket.sendall(b"GET /photo/000")
        start = time.monotonic()
        server.close()
        assert time.monotonic() - start < 1
        server.close()
    gate.wait_for_disconnect()
    for client in clients:
        with client:
            assert client.read_to_end()[1] in ("closed", "reset")
    assert threading.enumerate() == threads
    assert open_files() == files
    with pytest.raises(ConnectionRefusedError):
        Client(server)


async def test_close_while_clients_connect(event_loop_of_server: None) -> None:
    files = open_files()
    for _ in range(10):
        knocked = asyncio.Event()

        async def knock(url: str, knocked: asyncio.Event = knocked) -> None:
            host, _, port = url.removeprefix("http://").rpartition(":")
            while True:
                try:
                    _, writer = await asyncio.open_connection(host, int(port))
                except OSError:
                    return
                writer.transport.abort()
                knocked.set()

        with ImageServer(1, size=SMALL) as server:
            knockers = [asyncio.create_task(knock(server.url)) for _ in range(8)]
            await knocked.wait()
        await asyncio.gather(*knockers)
    await asyncio.sleep(0)
    assert open_files() == files


def test_a_fault_that_raises_drops_the_connection(server: ImageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncload.testing.registry.FAULTS", dict(FAULTS))
    said: list[str] = []
    server._loop.call_soon_threadsafe(
        server._loop.set_exception_handler, lambda loop, context: said.append(repr(context["exception"]))
    )

    @testing.fault
    def broken(reply: Reply) -> None:
        raise KeyError("oops")

    assert wire(server, server.fault_url(0, "broken")) == (b"", b"", "closed")
    assert get(server.url_of(0))[0] == 200
    assert said == ["KeyError('oops')"]


def test_runs_as_a_command_until_interrupted() -> None:
    command = [sys.executable, "-m", "asyncload.testing", "--count", "3", "--port", "0"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would inherit none
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.split("/  ")[0]
        status, headers, body = get(url + "/photo/00000.jpg")
        assert (status, headers["Content-Type"]) == (200, "image/jpeg")
        assert Image.open(io.BytesIO(body)).format == "JPEG"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()
