"""``asyncload doctor``: what is installed here, what of it is in use, and what would be worth changing."""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.table import Table

from asyncload import __version__
from asyncload.cli.options import Json
from asyncload.cli.terminal import output, printable
from asyncload.decode import codecs
from asyncload.fetch import Http
from asyncload.pool.executors import usable_cores
from asyncload.transforms.engine import engine

if sys.platform != "win32":
    import resource

__all__ = ["doctor"]

_DISTRIBUTIONS = {  # by module: those that may bring it
    "aiohttp": ["aiohttp"],
    "uvloop": ["uvloop"],
    "numpy": ["numpy"],
    "Pillow": ["pillow"],
    "simplejpeg": ["simplejpeg"],
    "cv2": [f"opencv-{kind}" for kind in ("python-headless", "python", "contrib-python-headless", "contrib-python")],
    "turbojpeg": ["turbojpeg"],
    "torch": ["torch"],
}

_EXTRAS = {  # the modules of each, and what it brings
    "fast": (["cv2", "turbojpeg"], "OpenCV, which resizes in a quarter of Pillow's time, and TurboJPEG 3"),
    "torch": (["torch"], "asyncload.torch.ImageDataset, for training"),
    "cli": (["rich", "typer"], "this command"),
    "parquet": (["pyarrow"], "pyarrow, with which a column of URLs becomes a list"),
    "s3": (["obstore"], "obstore, which lists and signs what is in S3 and other stores"),
    "plot": (["matplotlib"], "matplotlib, for figures of measurements"),
}

_FILES_OF_A_WORKER = 4  # a socket, and three pieces of memory
_FILES_OF_BATCHES = 128
_FILES_BESIDES = 40  # event loops, files being read, and what the interpreter and its modules have open


def doctor(as_json: Json = False) -> int:
    """Say what is installed, what is in use, and what to change."""
    findings = _examine()
    if as_json:
        print(json.dumps(findings))
    else:
        _show(output(), findings)
    return 0


def _examine() -> dict[str, Any]:
    found = codecs()
    cores = usable_cores()
    findings: dict[str, Any] = {
        "versions": {
            "asyncload": __version__,
            "Python": platform.python_version(),
            "platform": platform.platform(),
            **{name: _version(distributions) for name, distributions in _DISTRIBUTIONS.items()},
        },
        "jpeg": {"codec": found.jpeg, "version": found.jpeg_version, "turbojpeg": found.turbojpeg},
        "webp": found.webp,
        "resampler": _resampler(),
        "event_loop": "uvloop" if find_spec("uvloop") else "asyncio",
        "cores": cores,
        "open_files": _open_files(cores),
        "shared_memory": "memfd" if sys.platform == "linux" else "unlinked temporary files",
        "extras": {
            name: {"missing": [module for module in modules if find_spec(module) is None], "brings": brings}
            for name, (modules, brings) in _EXTRAS.items()
        },
    }
    findings["advice"] = _advice(findings)
    return findings


def _version(distributions: list[str]) -> str | None:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return None


def _resampler() -> str:
    return "OpenCV" if engine.resize.__module__.endswith("opencv") else "Pillow"


def _open_files(cores: int) -> dict[str, int | None]:
    """The limit of open files, ``None`` for none, and what a loader with default settings may need at most."""
    needed = Http().connections + cores * _FILES_OF_A_WORKER + _FILES_OF_BATCHES + _FILES_BESIDES
    if sys.platform == "win32":
        return {"soft": None, "hard": None, "needed": needed}
    soft, hard = (
        None if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return {"soft": soft, "hard": hard, "needed": needed}


def _advice(findings: dict[str, Any]) -> list[str]:
    advice = []
    if findings["jpeg"]["codec"] == "Pillow":
        advice.append("Pillow decodes JPEG, at three quarters of the speed of simplejpeg: pip install simplejpeg")
    if findings["jpeg"]["codec"] == "simplejpeg":
        advice.append(
            "simplejpeg decodes pictures whole, TurboJPEG 3 only the part that is used: pip install 'asyncload[fast]'"
        )
    if findings["resampler"] == "Pillow":
        advice.append("Pillow resizes, in four times the time of OpenCV: pip install 'asyncload[fast]'")
    if not findings["webp"]:
        advice.append("This Pillow cannot decode WebP, and such images will fail: pip install --upgrade pillow")
    files = findings["open_files"]
    soft, hard, needed = files["soft"], files["hard"], files["needed"]
    if soft is not None and soft < needed:
        wanted = 4096 if hard is None else min(4096, hard)
        way = (
            f"run ulimit -n {wanted} in the shell before"
            if wanted >= needed
            else f"pass Http(connections={max(1, soft - needed + Http().connections)}), or have the hard limit raised"
        )
        advice.append(f"Only {soft} files may be open, and 256 connections and the workers need up to {needed}: {way}")
    return advice


def _show(console: Console, findings: dict[str, Any]) -> None:
    jpeg, files = findings["jpeg"], findings["open_files"]
    _section(console, "Versions", {name: version or "not installed" for name, version in findings["versions"].items()})
    _section(
        console,
        "In use",
        {
            "JPEG": f"{jpeg['codec']} {jpeg['version']}",
            "TurboJPEG 3": printable(_turbojpeg(jpeg)),
            "WebP": "yes, by Pillow" if findings["webp"] else "no",
            "resampler": findings["resampler"],
            "event loop": findings["event_loop"],
            "shared memory": findings["shared_memory"],
            "usable cores": str(findings["cores"]),
            "open files": (
                f"{_limit(files['soft'])} (hard limit {_limit(files['hard'])}), up to {files['needed']} needed"
            ),
        },
    )
    _section(
        console,
        "Extras",
        {
            name: f"{'missing' if extra['missing'] else 'installed':<11}{extra['brings']}"
            for name, extra in findings["extras"].items()
        },
    )
    console.print("Advice", style="bold")
    for line in findings["advice"] or ["Nothing needs to change. pip install 'asyncload[NAME]' brings an extra."]:
        console.print(f"  {line}", soft_wrap=True)


def _turbojpeg(jpeg: dict[str, str]) -> str:
    if jpeg["codec"] == "TurboJPEG":
        return jpeg["turbojpeg"]
    cost = "a third" if jpeg["codec"] == "simplejpeg" else "three quarters"
    return f"not in use ({jpeg['turbojpeg']}): pictures are decoded whole, and random crops take {cost} more time"


def _limit(files: int | None) -> str:
    return "no limit" if files is None else f"{files:,}"


def _section(console: Console, title: str, lines: dict[str, str]) -> None:
    console.print(title, style="bold")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=15)
    grid.add_column(overflow="fold")
    for name, text in lines.items():
        grid.add_row(f"  {name}", text)
    console.print(grid)
    console.print()
