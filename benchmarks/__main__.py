"""``python -m benchmarks --folder FOLDER``: from nginx on loopback to batches, beside torch's DataLoader."""

from __future__ import annotations

import argparse
import json
import os
import platform
from datetime import date
from pathlib import Path
from statistics import median

from benchmarks.nginx import pairs_of, serve
from benchmarks.race import Result, in_turn

NAMES = ["asyncload_loader", "torch_dataloader"]


def show(title: str, results: dict[str, list[Result]]) -> None:
    print(
        f"\n{title}\n{'contestant':<46} {'images/s':>9} {'min':>6} {'max':>6} {'ratio':>6} {'CPU ms':>7} {'first s':>8}"
    )
    ours = [result["images_per_second"] for result in results[NAMES[0]]]
    for name, runs in results.items():
        if not runs:
            print(f"{name:<46} could not go on")
            continue
        rates = [result["images_per_second"] for result in runs]
        ratio = median(our / rate for our, rate in zip(ours or rates, rates, strict=False))
        cpu = median(result["cpu_ms"] for result in runs)
        first = median(result["first_batch_seconds"] for result in runs)
        figures = f"{median(rates):>9.0f} {min(rates):>6.0f} {max(rates):>6.0f} {ratio:>6.2f} {cpu:>7.2f} {first:>8.2f}"
        print(f"{runs[0]['label']:<46} {figures}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="JPEG files, however deep")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4, help="in each round; the first is not counted")
    parser.add_argument("--delay-ms", type=int, nargs="+", default=[0, 100], help="before every answer")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--json", type=Path, help="write every figure there")
    arguments = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    figures: dict[str, object] = {"date": date.today().isoformat(), "machine": machine}
    for delay in arguments.delay_ms:
        with serve(arguments.folder, delay / 1000) as root:
            pairs = pairs_of(arguments.folder, root)
            results = in_turn(arguments.only, pairs, rounds=arguments.rounds, epochs=arguments.epochs)
        show(f"{len(pairs)} photographs, {delay} ms before every answer, {machine}", results)
        figures[f"{delay} ms"] = results
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
