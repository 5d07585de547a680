"""``python -m asyncload.testing --count 300 --port 8000``: an image server until Ctrl-C."""

from __future__ import annotations

import argparse
import threading

from asyncload.testing.server import ImageServer

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m asyncload.testing", description="Serve generated photographs.")
    parser.add_argument("--count", type=int, default=300, help="how many photographs (300)")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other photographs (0)")
    parser.add_argument("--folder", help="serve the files of this folder, too")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on, 0 for a free one (8000)")
    options = parser.parse_args(arguments)
    with ImageServer(**vars(options)) as server:
        print(f"{server.url}/  {options.count} photographs; Ctrl-C ends", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
