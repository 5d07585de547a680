"""One contestant in this process (``python -m benchmarks.race NAME``), or several in turn, each in a fresh one."""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from typing import Any, TypedDict

__all__ = ["Result", "in_turn"]


class Result(TypedDict):
    """The quickest epoch after the first: ``images_per_second``; and of the whole process and its children:
    ``cpu_ms`` an image, ``first_batch_seconds`` from the call, ``images`` of one epoch. ``label`` says who it is."""

    label: str
    images: int
    images_per_second: float
    first_batch_seconds: float
    cpu_ms: float
    versions: dict[str, str]


def run(name: str, pairs: list[tuple[str, int]], epochs: int) -> Result:
    """Run a contestant here."""
    contestant = importlib.import_module(f"benchmarks.contestants.{name}")
    started = time.perf_counter()
    first_batch = 0.0
    seconds: list[float] = []
    images = 0
    for epoch in contestant.epochs(pairs, epochs):
        began = time.perf_counter()
        images = 0
        for size in epoch:
            first_batch = first_batch or time.perf_counter() - started
            images += size
        seconds.append(time.perf_counter() - began)
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(used.ru_utime + used.ru_stime for used in usage)
    return Result(
        label=contestant.LABEL,
        images=images,
        images_per_second=images / min(seconds[1:] or seconds),
        first_batch_seconds=first_batch,
        cpu_ms=1000 * cpu / (images * len(seconds)),
        versions={package: version(package) for package in contestant.PACKAGES},
    )


def in_turn(names: list[str], pairs: list[tuple[str, int]], *, rounds: int, epochs: int) -> dict[str, list[Result]]:
    """Every contestant once, then again, ``rounds`` times. One that fails is reported and left out."""
    results: dict[str, list[Result]] = {name: [] for name in names}
    task = json.dumps({"pairs": pairs, "epochs": epochs})
    for number in range(rounds):
        for name in names:
            command = [sys.executable, "-m", "benchmarks.race", name]
            process = subprocess.run(command, input=task, stdout=subprocess.PIPE, text=True)
            if process.returncode:
                print(f"{name}: failed with exit code {process.returncode}", file=sys.stderr)
                continue
            result = json.loads(process.stdout.splitlines()[-1])
            results[name].append(result)
            print(f"round {number + 1}: {name}: {result['images_per_second']:.0f} images/s", file=sys.stderr)
    return results


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    pairs = [(url, label) for url, label in task["pairs"]]
    print(json.dumps(run(sys.argv[1], pairs, task["epochs"])))


if __name__ == "__main__":
    main()
