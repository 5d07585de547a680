from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from scripted_server import BODY, Server, listening, reply

from asyncload.errors import BlockedError, ConnectError
from asyncload.fetch import Fetcher

Opened = Callable[..., Awaitable[Fetcher]]

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    subprocess.run([*command, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


@pytest_asyncio.fixture
async def secure(certificate: tuple[Path, Path]) -> AsyncIterator[Server]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    async with listening(context) as server:
        yield server


async def test_an_unknown_certificate_is_refused_at_once(opened: Opened, secure: Server) -> None:
    secure.on("/", reply())
    with pytest.raises(ConnectError, match=r"self.signed certificate") as caught:
        await (await opened()).fetch(secure.url("/", "localhost"))
    assert (caught.value.reason, caught.value.attempts) == ("tls", 1)
    assert secure.requests == []


async def test_a_certificate_of_another_host_is_refused(
    opened: Opened, secure: Server, certificate: tuple[Path, Path]
) -> None:
    secure.on("/", reply())
    fetcher = await opened(verify=ssl.create_default_context(cafile=str(certificate[0])))
    assert (await fetcher.fetch(secure.url("/", "localhost"))).body == BODY
    with pytest.raises(ConnectError, match=r"not valid for '127\.0\.0\.1'") as caught:
        await fetcher.fetch(secure.url("/"))
    assert (caught.value.reason, caught.value.attempts) == ("tls", 1)


async def test_any_certificate_will_do_if_asked(opened: Opened, secure: Server) -> None:
    secure.on("/", reply())
    assert (await (await opened(verify=False)).fetch(secure.url("/"))).body == BODY


async def test_https_is_not_left_for_http(opened: Opened, secure: Server, server: Server) -> None:
    server.on("/canary", reply())
    secure.on("/", reply(b"", 302, location=server.url("/canary")))
    with pytest.raises(BlockedError) as caught:
        await (await opened(verify=False)).fetch(secure.url("/"))
    assert caught.value.reason == "bad_redirect"
    assert server.requests == []


async def test_http_may_be_left_for_https(opened: Opened, secure: Server, server: Server) -> None:
    secure.on("/", reply())
    url = server.on("/", reply(b"", 301, location=secure.url("/")))
    assert (await (await opened(verify=False, headers={"X-Key": "1"})).fetch(url)).body == BODY
    assert "x-key" not in secure.requests[0][1]


async def test_tls_to_a_port_without_it(opened: Opened) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(ConnectError, match="WRONG_VERSION_NUMBER") as caught:
            await (await opened()).fetch(f"https://127.0.0.1:{port}/")
    assert (caught.value.reason, caught.value.attempts) == ("tls", 1)
