"""Files of this machine."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import aiofiles.os

from asyncload.errors import FetchError, PayloadError

__all__ = ["Files"]

_THREADS = 8  # enough for a disk's queue; more only contend for the interpreter


class Files:
    """Reads regular files of at most ``max_bytes``, eight at a time."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="asyncload-files")

    async def read(self, path: str) -> bytes:
        """The contents of the file ``path``.

        Raises ``FetchError`` (``file_not_found``, ``file``) and ``PayloadError`` (``empty``, ``too_large``).
        """
        # One visit to a thread for all of it: each costs as much as reading the file. The caller copies the bytes
        # into its buffer, since a cancelled caller could not stop the thread from writing to it.
        return await _read(path, self._max_bytes, executor=self._threads)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


@aiofiles.os.wrap
def _read(path: str, max_bytes: int) -> bytes:
    try:
        with open(path, "rb", opener=_open) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FetchError(f"{path!r} is not a regular file", reason="file")
            if status.st_size > max_bytes:
                raise PayloadError(
                    f"expected at most max_bytes={max_bytes}, got a file of {status.st_size}", reason="too_large"
                )
            data = file.read(status.st_size)
    except FileNotFoundError:
        raise FetchError(f"no file {path!r}", reason="file_not_found") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        text = error.strerror if isinstance(error, OSError) else "not a path"
        raise FetchError(f"{path!r} cannot be read: {text}", reason="file") from None
    if not data:
        raise PayloadError(f"{path!r} is empty", reason="empty")
    return data


def _open(path: str, flags: int) -> int:
    # A FIFO without a writer would be waited for; it is refused once it is open.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
