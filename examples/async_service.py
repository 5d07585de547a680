"""A web service that says what images look like: the size, mean colour and thumbnail of each of a list of URLs::

    python examples/async_service.py --port 8080
    curl localhost:8080/describe --json '["https://example.org/a.jpg", "https://example.org/b.png"]'
    curl localhost:8080/health

Images are fetched in the service's own event loop and described in worker processes, so it answers while they work.
"""

from __future__ import annotations

import argparse
import asyncio
import io
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import numpy as np
import PIL.Image
from aiohttp import web
from numpy.typing import NDArray

import asyncload

# Together the most that strangers can make it do at once: 128 downloads, and a gigabyte of bodies.
MAX_REQUESTS = 8
MAX_URLS = 16
MAX_IMAGE_BYTES = 8 << 20
MAX_REQUEST_BYTES = 64 << 10

SESSION = web.AppKey("session", asyncload.Session)
REQUESTS = web.AppKey("requests", asyncio.Semaphore)


def describe(image: NDArray[np.uint8], rng: np.random.Generator) -> dict[str, Any]:
    """What becomes of each image, in a worker: a transform may return any plain data."""
    height, width, _ = image.shape
    red, green, blue = image.mean(axis=(0, 1)).round().astype(int)
    thumbnail, file = PIL.Image.fromarray(image), io.BytesIO()
    thumbnail.thumbnail((128, 128))
    thumbnail.save(file, "JPEG", quality=80)
    return {"size": [width, height], "mean": f"#{red:02x}{green:02x}{blue:02x}", "thumbnail": file.getvalue()}


async def describe_url(session: asyncload.Session, url: str) -> dict[str, Any]:
    try:
        described = (await session.load(url)).image
    except asyncload.SampleError as error:
        return {"url": url, "error": {"reason": error.reason, "message": str(error)}}
    data_url = f"data:image/jpeg;base64,{b64encode(described['thumbnail']).decode()}"
    return {"url": url, **described, "thumbnail": data_url}


async def urls_of(request: web.Request) -> list[str]:
    try:
        urls = await request.json()
    except (ValueError, RecursionError) as error:
        raise web.HTTPBadRequest(text=f"expected JSON, got something else: {error}\n") from None
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        raise web.HTTPBadRequest(text='expected a JSON list of URLs, such as ["https://example.org/a.jpg"]\n')
    if len(urls) > MAX_URLS:
        raise web.HTTPBadRequest(text=f"expected at most {MAX_URLS} URLs in a request, got {len(urls)}\n")
    return urls


async def post_describe(request: web.Request) -> web.Response:
    urls = await urls_of(request)
    requests = request.app[REQUESTS]
    if requests.locked():  # said at once: a queue would only grow, and its clients give up
        raise web.HTTPServiceUnavailable(text="busy; try again\n", headers={"Retry-After": "1"})
    # A client that goes away cancels this handler, the handler its tasks, and each task its download.
    async with requests, asyncio.TaskGroup() as group:
        tasks = [group.create_task(describe_url(request.app[SESSION], url)) for url in urls]
    return web.json_response([task.result() for task in tasks])


async def get_health(request: web.Request) -> web.Response:
    return web.json_response(asdict(request.app[SESSION].stats()))


def make_app(http: asyncload.Http) -> web.Application:
    async def open_session(app: web.Application) -> AsyncIterator[None]:
        async with asyncload.Session(describe, http=http) as session:
            app[SESSION] = session
            yield

    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app[REQUESTS] = asyncio.Semaphore(MAX_REQUESTS)
    app.cleanup_ctx.append(open_session)
    app.add_routes([web.post("/describe", post_describe), web.get("/health", get_health)])
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description="Describe images by their URLs.")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--allow-private", action="store_true", help="for trials: images from private addresses too")
    args = parser.parse_args()
    http = asyncload.Http(
        max_bytes=MAX_IMAGE_BYTES,
        timeout=5,  # shorter than the defaults, which are for training: somebody is waiting for the answer
        deadline=10,
        retries=1,
        allow_files=False,  # those of this machine are no business of a client's
        allow_private=args.allow_private,
    )
    web.run_app(make_app(http), host="127.0.0.1", port=args.port, handler_cancellation=True, shutdown_timeout=2)


if __name__ == "__main__":
    main()
