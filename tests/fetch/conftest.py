from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
import pytest_asyncio
import uvloop
from scripted_server import Server, Time, listening

from asyncload.fetch import Fetcher, Http


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def libuv() -> None:
    uvloop.new_event_loop().close()  # the first of a process makes a pipe that it keeps


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with listening() as server:
        yield server


@pytest.fixture
def virtual() -> Time:
    return Time()


@pytest_asyncio.fixture
async def opened(virtual: Time) -> AsyncIterator[Callable[..., Any]]:
    """Opens a fetcher with the given settings and loopback allowed, in virtual time unless ``real`` is asked for."""
    async with AsyncExitStack() as stack:

        async def open_fetcher(*, real: bool = False, **settings: Any) -> Fetcher:
            http = Http(**{"allow_private": True, **settings})
            time: dict[str, Any] = {} if real else {"clock": virtual.clock, "sleep": virtual.sleep}
            return await stack.enter_async_context(Fetcher(http, rng=Random(0), **time))

        yield open_fetcher
