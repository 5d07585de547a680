"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["Executor", "ExecutorName", "Json", "Workers"]


class ExecutorName(StrEnum):
    process = "process"
    thread = "thread"


Executor = Annotated[ExecutorName, typer.Option(help="Workers in processes or in threads.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Decode workers; by default one for each usable core.")]
