"""Faults by name, and the paths that ask for them; the faults themselves are in :mod:`asyncload.testing.faults`."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec
from urllib.parse import quote, unquote

from asyncload.testing.reply import Reply

__all__ = ["FAULTS", "FaultCall", "fault", "fault_path", "parse_fault"]

_Arguments = ParamSpec("_Arguments")

FAULTS: dict[str, Callable[..., None]] = {}
"""Every fault by its name."""


def fault(spoil: Callable[Concatenate[Reply, _Arguments], None]) -> Callable[Concatenate[Reply, _Arguments], None]:
    """Make ``spoil`` a fault under its own name.

    Its arguments after the reply are ``str``, ``int`` or ``float``, and annotated so; the first is the value that
    follows the name in a path.
    """
    FAULTS[spoil.__name__] = spoil
    return spoil


@dataclass(frozen=True, slots=True)
class FaultCall:
    """The outermost fault of a path: its name and arguments, and the path ``rest`` that it spoils."""

    name: str
    arguments: Mapping[str, Any]
    times: int | None
    rest: str

    def apply(self, reply: Reply) -> None:
        FAULTS[self.name](reply, **self.arguments)


def parse_fault(path: str) -> FaultCall | None:
    """The outermost fault of ``path``, None if it asks for none. Raises ``ValueError`` unless it is in the table."""
    if not path.startswith("/fault/"):
        return None
    first, *segments = path.removeprefix("/fault/").split("/")
    count = next((i for i, segment in enumerate(segments) if "=" not in segment), len(segments))
    name, equals, value = first.partition("=")
    given = {_main_argument(name): unquote(value)} if equals else {}
    for segment in segments[:count]:
        key, _, value = segment.partition("=")
        given[key] = unquote(value)
    arguments = _converted(name, given)
    return FaultCall(name, arguments, arguments.pop("times", None), "/" + "/".join(segments[count:]))


def fault_path(path: str, name: str, value: object = None, /, **arguments: object) -> str:
    """``path`` with the fault ``name``, as :func:`parse_fault` reads it. Raises ``ValueError`` as that does."""
    if value is not None:
        arguments = {_main_argument(name): value, **arguments}
    given = {key: str(argument) for key, argument in arguments.items() if argument is not None}
    _converted(name, given)
    first = f"/fault/{name}" if value is None else f"/fault/{name}={quote(given.pop(_main_argument(name)), safe='')}"
    return "/".join([first, *(f"{key}={quote(text, safe='')}" for key, text in given.items())]) + path


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    if name not in FAULTS:
        raise ValueError(f"fault {name!r}: expected one of {', '.join(FAULTS)}")
    parameters = inspect.signature(FAULTS[name], eval_str=True).parameters
    return dict(itertools.islice(parameters.items(), 1, None))  # without the reply


def _main_argument(name: str) -> str:
    parameters = _parameters(name)
    if not parameters:
        raise ValueError(f"fault {name!r}: expected no value, as it takes none")
    return next(iter(parameters))


def _converted(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    parameters = _parameters(name)
    types: dict[str, Callable[[str], Any]] = {key: it.annotation for key, it in parameters.items()} | {"times": int}
    needed = {key for key, parameter in parameters.items() if parameter.default is parameter.empty}
    if not needed <= given.keys() <= types.keys():
        raise ValueError(f"fault {name!r}: expected the arguments {', '.join(types)}, got {', '.join(given) or 'none'}")
    try:
        return {key: types[key](text) for key, text in given.items()}
    except ValueError as error:
        raise ValueError(f"fault {name!r}: {error}") from None
