"""What came of an epoch, in words that need no knowledge of how it works."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table
from rich.text import Text

from asyncload.cli.measure import Epoch
from asyncload.cli.terminal import printable
from asyncload.errors import Failure
from asyncload.stats import Verdict

__all__ = ["summarize"]

_FAILURES_SHOWN = 12
_PATH_SHOWN = 300

_VERDICTS: dict[Verdict, str] = {
    "network": (
        "The decode workers waited for images: the servers, the way to them or the disk set the pace. More at once may "
        "help (--connections, --per-host), and so does a source that is nearer, or smaller files."
    ),
    "decode": (
        "Images waited for a decode worker: turning files into pixels set the pace. More workers help while cores are "
        "idle (--workers); then faster codecs (asyncload doctor), or images stored no larger than they are used."
    ),
    "transform": (
        "Images waited for a decode worker, and most of its time went into the transform, which set the pace. More "
        "workers help while cores are idle (--workers); then OpenCV (asyncload doctor), or a cheaper transform."
    ),
    "consumer": (
        "Batches were ready before they were asked for: whoever takes them, usually the training step, set the pace. "
        "The loading is fast enough, and nothing needs to change."
    ),
}

_RETRIED_BECAUSE = {
    "connect": "not connected, or the connection was lost",
    "connect_timeout": "too slow to connect",
    "dns": "the name was not found",
    "empty": "an answer without a body",
    "http_status": "a status that passes, such as 503",
    "read_timeout": "silence for too long",
    "timeout": "too slow in all",
    "too_slow": "a trickle of bytes",
    "truncated": "the body broke off",
}


def summarize(console: Console, epoch: Epoch, failures_title: str = "Failed") -> None:
    """Print figures, what was tried again, what failed and why, and what was the bottleneck."""
    stats = epoch.stats
    outcomes = stats.samples + stats.failed
    lines = Table.grid(padding=(0, 3))
    lines.add_column(style="bold", no_wrap=True)
    lines.add_column(max_width=96)
    lines.add_row("Delivered", f"{stats.samples:,} of {outcomes:,} images in {stats.seconds:.2f} s")
    lines.add_row("Speed", f"{stats.images_per_second:,.0f} images/s, {stats.megabytes_per_second:,.1f} MB/s")
    if epoch.first_batch_seconds is not None:
        lines.add_row("First batch", f"after {epoch.first_batch_seconds:.2f} s")
    lines.add_row("Retried", _counts(stats.retried, _RETRIED_BECAUSE))
    lines.add_row("Failed", _counts(stats.reasons, {}))
    if stats.worker_crashes:
        lines.add_row("Crashes", f"{stats.worker_crashes:,} decode workers died, and were replaced")
    if stats.bottleneck is not None:
        lines.add_row("Bottleneck", Text.assemble((stats.bottleneck, "bold"), f". {_VERDICTS[stats.bottleneck]}"))
    console.print(lines)
    if epoch.failures:
        _print_failures(console, epoch.failures, failures_title)


def _counts(counts: Mapping[str, int], meanings: Mapping[str, str]) -> str:
    if not counts:
        return "none"
    parts = []
    for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        meaning = f" ({meanings[reason]})" if reason in meanings else ""
        parts.append(f"{count:,} {reason}{meaning}")
    return f"{sum(counts.values()):,}: {', '.join(parts)}"


def _print_failures(console: Console, failures: list[Failure], title: str) -> None:
    console.print(f"\n{title}", style="bold")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("index", "status", "attempts"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("stage/reason", no_wrap=True)
    table.add_column("path and message", overflow="fold")
    for failure in sorted(failures, key=lambda failure: failure.index)[:_FAILURES_SHOWN]:
        table.add_row(
            str(failure.index),
            "-" if failure.status is None else str(failure.status),
            str(failure.attempts),
            f"{failure.stage}/{failure.reason}",
            Text.assemble(printable(_path(failure.url)[:_PATH_SHOWN]), "\n", (printable(failure.message), "dim")),
        )
    console.print(table)
    if len(failures) > _FAILURES_SHOWN:
        console.print(f"and {len(failures) - _FAILURES_SHOWN:,} more", style="dim")


def _path(url: str) -> str:
    return urlsplit(url).path if url.startswith(("http://", "https://")) else url
