"""The examples, run as anybody would run them: in processes of their own."""

from __future__ import annotations

import base64
import http.client
import importlib.util
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import psutil
import pytest

from asyncload.testing import ImageServer

EXAMPLES = Path(__file__).parents[1] / "examples"


def start(example: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that what a terminal does on Ctrl-C can be done to it alone
    )


def output_of(process: subprocess.Popen[str]) -> list[str]:
    with process:
        out, err = process.communicate(timeout=50)
    assert process.returncode == 0, err
    return out.splitlines()


@pytest.fixture
def server() -> Iterator[ImageServer]:
    with ImageServer(count=20, size=(200, 300)) as server:
        yield server


# stream_urls.py


def test_stream_urls_shows_a_server_of_its_own() -> None:
    lines = output_of(start("stream_urls.py"))
    assert sorted(int(line.split()[0]) for line in lines) == list(range(22))
    assert all(re.search(r" [a-z]+ +\d+ x \d+ +#[0-9a-f]{6}$", line) for line in lines[:20]), lines
    assert sorted(line.split()[1] for line in lines[20:]) == ["http_status:", "truncated:"]


def test_stream_urls_takes_urls_and_lists_of_them(server: ImageServer, tmp_path: Path) -> None:
    picture, listed = tmp_path / "a picture.png", tmp_path / "urls.txt"
    PIL.Image.new("RGB", (30, 20), (0, 128, 3)).save(picture)
    listed.write_text(f"{picture}\n\n  {server.url}/nothing.jpg\n")
    arguments = "--file", str(listed), server.url_of(0)

    width, height = server.photograph(0).size
    *shown, missing = output_of(start("stream_urls.py", "--allow-private", *arguments))
    photograph, plain = sorted(line.split() for line in shown)
    assert photograph[:5] == ["0", "-", str(width), "x", str(height)]
    assert plain == ["1", "-", "30", "x", "20", "#008003"]
    assert missing.split()[:2] == ["2", "http_status:"]

    blocked = output_of(start("stream_urls.py", *arguments))[1:]
    assert [line.split()[1] for line in blocked] == ["blocked_address:"] * 2


# train_torch.py


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_train_torch_learns_the_same_each_time() -> None:
    runs = [start("train_torch.py", "--images", "400", "--epochs", "4") for _ in range(2)]
    first, second = (re.findall(r"loss ([\d.]+), accuracy ([\d.]+)%", "\n".join(output_of(run))) for run in runs)
    losses, accuracies = ([float(value) for value in column] for column in zip(*first, strict=True))
    assert len(losses) == 4
    assert losses[-1] < 0.7 * losses[0]
    assert accuracies[-1] > 50  # of ten classes
    assert first == second


# async_service.py


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: str

    @property
    def json(self) -> Any:
        assert self.status == 200, self.body
        return json.loads(self.body)


def terminate(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


def press_ctrl_c(pid: int) -> None:
    os.killpg(pid, signal.SIGINT)


class Service:
    """The service on a free port, for the time of a ``with``. ``stop`` is called with its process id to end it."""

    def __init__(self, *arguments: str, stop: Callable[[int], None] = terminate) -> None:
        self._arguments = arguments
        self._stop = stop

    def __enter__(self) -> Service:
        self._process = start("async_service.py", "--port", "0", *self._arguments)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert match, line + self._process.communicate()[1]
        self._port = int(match[1])
        return self

    def __exit__(self, *_: object) -> None:
        workers = psutil.Process(self._process.pid).children(recursive=True)
        self._stop(self._process.pid)
        with self._process:
            _, err = self._process.communicate(timeout=10)
        assert (self._process.returncode, err) == (0, "")
        assert workers
        assert not psutil.wait_procs(workers, timeout=2)[1]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)

    def ask(self, path: str, body: bytes | None = None) -> Answer:
        with closing(self.connect()) as connection:
            connection.request("GET" if body is None else "POST", path, body)
            return answer_on(connection)

    def describe(self, urls: object) -> Answer:
        return self.ask("/describe", json.dumps(urls).encode())


def answer_on(connection: http.client.HTTPConnection) -> Answer:
    response = connection.getresponse()
    return Answer(response.status, response.headers, response.read().decode())


@pytest.fixture
def service() -> Iterator[Service]:
    with Service("--allow-private") as service:
        yield service


def test_service_describes_what_it_can_and_says_why_of_the_rest(server: ImageServer, service: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    urls = [server.url_of(0), dead, server.fault_url(1, "html"), server.url_of("/nothing.jpg"), server.url_of(2)]

    answers = service.describe(urls).json

    assert [answer["url"] for answer in answers] == urls
    assert [answer["error"]["reason"] for answer in answers[1:4]] == ["connect", "not_image", "http_status"]
    assert all(answer["error"]["message"] for answer in answers[1:4])
    for number, answer in ((0, answers[0]), (2, answers[4])):
        picture = PIL.Image.open(io.BytesIO(server.image(number)))
        assert answer["size"] == list(picture.size)
        assert close(answer["mean"], np.asarray(picture).mean(axis=(0, 1)), within=1)
        kind, _, encoded = answer["thumbnail"].partition(",")
        assert kind == "data:image/jpeg;base64"
        thumbnail = PIL.Image.open(io.BytesIO(base64.b64decode(encoded, validate=True)))
        assert max(thumbnail.size) == 128
        assert close(answer["mean"], np.asarray(thumbnail).mean(axis=(0, 1)), within=3)


def close(colour: str, other: Any, within: float) -> bool:
    return bool(np.abs(np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) - other).max() <= within)


def test_service_keeps_to_its_limits(server: ImageServer, service: Service) -> None:
    refused = {
        json.dumps(["http://127.0.0.1/"] * 17): (400, "at most 16 URLs in a request, got 17"),
        json.dumps("http://127.0.0.1/"): (400, "expected a JSON list of URLs"),
        json.dumps([1]): (400, "expected a JSON list of URLs"),
        "http://127.0.0.1/": (400, "expected JSON"),
        "[" * 60_000: (400, "expected JSON"),
        json.dumps(["http://127.0.0.1/" + "a" * 65_536]): (413, "65536"),
    }
    for body, (status, text) in refused.items():
        answer = service.ask("/describe", body.encode())
        assert answer.status == status
        assert text in answer.body
    assert service.describe([]).json == []

    urls = [server.url_of(number) for number in range(16)]
    with server.hold(urls[0]) as gate, ExitStack() as clients:
        busy = [clients.enter_context(closing(service.connect())) for _ in range(8)]
        for connection in busy:
            connection.request("POST", "/describe", json.dumps(urls))
        gate.wait_for_requests(8)
        one_more = service.describe(urls)
        assert (one_more.status, one_more.headers["Retry-After"]) == (503, "1")
        gate.release()
        assert all("size" in described for connection in busy for described in answer_on(connection).json)


def test_service_ends_the_downloads_of_a_client_that_goes_away(server: ImageServer, service: Service) -> None:
    urls = [server.url_of(number) for number in range(3)]
    with server.hold() as gate, closing(service.connect()) as connection:
        connection.request("POST", "/describe", json.dumps(urls))
        gate.wait_for_requests(3)
        connection.close()
        gate.wait_for_disconnect(3, timeout=3)  # before the 5 s after which the service gives up by itself
    assert all("size" in described for described in service.describe(urls).json)
    health = service.ask("/health").json
    assert (health["samples"], health["failed"]) == (3, 0)


def test_service_tells_how_it_is(server: ImageServer, service: Service) -> None:
    assert service.ask("/health").json["samples"] == 0
    service.describe([server.url_of(0), server.url_of("/nothing.jpg")])
    health = service.ask("/health").json
    assert (health["samples"], health["failed"], health["reasons"]) == (1, 1, {"http_status": 1})
    assert health["bytes"] == len(server.image(0))


def test_service_reaches_neither_private_addresses_nor_files(server: ImageServer, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    PIL.Image.new("RGB", (8, 8)).save(picture)
    urls = [server.url_of(0), str(picture), picture.as_uri(), server.fault_url(0, "redirect", picture.as_uri())]
    with Service() as service:
        reasons = [answer["error"]["reason"] for answer in service.describe(urls).json]
    assert reasons == ["blocked_address", "blocked_scheme", "blocked_scheme", "blocked_address"]
    assert not server.count()


def test_service_ends_on_ctrl_c_though_a_client_waits(server: ImageServer) -> None:
    with server.hold(1) as gate, ExitStack() as clients, Service("--allow-private", stop=press_ctrl_c) as service:
        assert "size" in service.describe([server.url_of(0)]).json[0]
        waiting = clients.enter_context(closing(service.connect()))
        waiting.request("POST", "/describe", json.dumps([server.url_of(1)]))
        gate.wait_for_requests(1)
