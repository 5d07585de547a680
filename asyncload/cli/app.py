"""The commands put together; and what they all do about errors and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Annotated, ParamSpec

import typer

from asyncload import __version__
from asyncload.cli import ctrl_c
from asyncload.cli.bench import bench
from asyncload.cli.demo import demo
from asyncload.cli.doctor import doctor
from asyncload.cli.terminal import errors, printable
from asyncload.errors import AsyncloadError

__all__ = ["app"]

_Arguments = ParamSpec("_Arguments")

app = typer.Typer(
    name="asyncload",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"asyncload {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Image URLs in, training batches out, at the speed of the decoder."""


def _guarded(command: Callable[_Arguments, int]) -> Callable[_Arguments, None]:
    """``command``, which returns its exit status, without a traceback for what is not a fault of the program."""

    @wraps(command)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
            if status == 0:
                ctrl_c.check()
        except KeyboardInterrupt:
            errors().print("Stopped.")
            status = 130
        except BrokenPipeError:  # whoever read our output has had enough, and typer knows what to do
            raise
        except (AsyncloadError, OSError) as error:
            errors().print(f"asyncload {command.__name__}: {printable(str(error))}", soft_wrap=True)
            status = 1
        raise typer.Exit(status)

    return run


for _command in (demo, bench, doctor):
    app.command()(_guarded(_command))
