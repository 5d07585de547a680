"""Stream images from URLs with a plain ``for`` loop::

    python examples/stream_urls.py https://example.org/a.jpg https://example.org/b.png
    python examples/stream_urls.py --file urls.txt

Paths of local files will do as well. Without any, the photographs are those of a server of its own, and two are broken.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import asyncload
from asyncload.sources import AnySource
from asyncload.testing import ImageServer


def show(source: AnySource, http: asyncload.Http) -> None:
    failures: list[asyncload.Failure] = []
    # max_error_rate=1: go on to the end whatever fails, where training would rather stop at too many.
    for sample in asyncload.stream(source, http=http, on_error=failures.append, max_error_rate=1):
        height, width, _ = sample.image.shape
        red, green, blue = sample.image.mean(axis=(0, 1)).round().astype(int)
        print(f"{sample.index:6}  {sample.label or '-':10}  {width:5} x {height:<5}  #{red:02x}{green:02x}{blue:02x}")
    for failure in failures:
        print(f"{failure.index:6}  {failure.reason}: {failure.message} ({failure.url})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Stream images from URLs, and print what they are.")
    parser.add_argument("urls", nargs="*", metavar="URL")
    parser.add_argument("--file", type=Path, help="a list of URLs, one on each line")
    parser.add_argument("--allow-private", action="store_true", help="also from private addresses, such as 127.0.0.1")
    args = parser.parse_args()

    lines = args.file.read_text().splitlines() if args.file else []
    urls = args.urls + [line.strip() for line in lines if line.strip()]
    if urls:
        show(urls, asyncload.Http(allow_private=args.allow_private))
        return
    with ImageServer(count=20) as server:
        photographs = [(url, server.classes[label]) for url, label in server.pairs()]
        broken = [(server.fault_url(3, "truncate"), "cut short"), (server.url + "/nothing.jpg", "not there")]
        show(photographs + broken, asyncload.Http(allow_hosts=("127.0.0.1",)))


if __name__ == "__main__":
    main()
