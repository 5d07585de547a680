"""A folder of image files: class folders, or flat."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from asyncload.sources.urls import UrlSource, from_urls

__all__ = ["EXTENSIONS", "FolderSource", "from_folder"]

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
"""File names that are taken for images, in lower case. What a file really is, its first bytes decide later."""

_logger = logging.getLogger("asyncload")


class FolderSource(UrlSource):
    """The image files below a folder, in the order of their paths; ``classes`` are the names of its class folders."""

    classes: list[str]

    def __init__(self, source: UrlSource, classes: list[str]) -> None:
        super().__init__(source._buffer, source._ends, source._labels)
        self.classes = classes

    def __repr__(self) -> str:
        return f"FolderSource({len(self)} items, {len(self.classes)} classes)"


def from_folder(path: str | os.PathLike[str]) -> FolderSource:
    """The images below ``path``, as torchvision's ImageFolder sees them.

    Where ``path`` has folders, each is a class; the classes are sorted by name and numbered from 0, and every image
    below a class folder, however deep, has its number as label. Where it has none, its own images have no label.
    Symbolic links are followed; a loop of links, or a folder that cannot be read, is logged and left out.

    Raises ``FileNotFoundError`` or ``NotADirectoryError`` for a bad ``path``, ``ValueError`` where no image is found.
    """
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError(f"from_folder: no such folder: {root}")
    if not root.is_dir():
        raise NotADirectoryError(f"from_folder: not a folder: {root}")
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))
    files: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        found = _images_below(root / name)
        files += found
        labels += [number] * len(found)
    if not classes:
        files = sorted(entry.path for entry in os.scandir(root) if _is_image(entry))
    if not files:
        raise ValueError(f"from_folder: no images below {root}; looked for {', '.join(sorted(EXTENSIONS))}")
    return FolderSource(from_urls(files, labels if classes else None), classes)


def _images_below(folder: Path) -> list[str]:
    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    pending: list[Any] = [folder]
    while pending:
        current = pending.pop()
        try:
            status = os.stat(current)
            if (status.st_dev, status.st_ino) in seen:
                _logger.warning("from_folder: %s leads back to a folder already read; left out", current)
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(current) as entries:
                for entry in entries:
                    if entry.is_dir():
                        pending.append(entry.path)
                    elif _is_image(entry):
                        found.append(entry.path)
        except OSError as error:
            _logger.warning("from_folder: %s cannot be read (%s); left out", current, error.strerror)
    return sorted(found)


def _is_image(entry: os.DirEntry[str]) -> bool:
    return os.path.splitext(entry.name)[1].lower() in EXTENSIONS and not entry.is_dir()
