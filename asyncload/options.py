"""How a source is turned into samples and batches: the options that every face shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from asyncload.errors import Failure
from asyncload.types import Shard

__all__ = ["ErrorPolicy", "Options", "check_counter"]

ErrorPolicy: TypeAlias = Literal["skip", "raise", "replace"] | Callable[[Failure], Any]

BATCH_SIZE_MAX = 1 << 20
"""A batch has its memory in one piece."""

_POLICIES = ("skip", "raise", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What :class:`asyncload.Loader` documents, checked.

    Raises ``TypeError`` or ``ValueError`` naming the option, what was expected and what was given.
    """

    batch_size: int | None = None
    drop_last: bool = False
    ordered: bool = False
    shuffle: bool = False
    seed: int = 0
    shard: Shard | None = None
    on_error: ErrorPolicy = "skip"
    max_error_rate: float = 0.1
    prefetch: int | None = None

    def __post_init__(self) -> None:
        _integer("batch_size", self.batch_size, least=1, optional=True)
        if self.batch_size is not None and self.batch_size > BATCH_SIZE_MAX:
            raise ValueError(f"batch_size: expected at most {BATCH_SIZE_MAX}, got {self.batch_size}")
        _integer("prefetch", self.prefetch, least=1, optional=True)
        check_counter("seed", self.seed)
        if self.drop_last and self.batch_size is None:
            raise ValueError("drop_last: there are no batches to drop without a batch_size")
        if self.shard is not None and not isinstance(self.shard, Shard):
            raise TypeError(f"shard: expected a Shard(rank, world_size), got {self.shard!r}")
        if not callable(self.on_error) and self.on_error not in _POLICIES:
            raise ValueError(
                f"on_error: expected one of {', '.join(map(repr, _POLICIES))} or a callable, got {self.on_error!r}"
            )
        if isinstance(self.max_error_rate, bool) or not isinstance(self.max_error_rate, (int, float)):
            raise TypeError(f"max_error_rate: expected a number, got {self.max_error_rate!r}")
        if not 0 <= self.max_error_rate <= 1:
            raise ValueError(f"max_error_rate: expected a share between 0 and 1, got {self.max_error_rate!r}")

    def tell(self, failure: Failure) -> None:
        """Call the caller's ``on_error``, if that is a function."""
        if callable(self.on_error):
            self.on_error(failure)

    def check_source(self, *, length_known: bool) -> None:
        """Raises ``ValueError`` for what only a source of known length can do."""
        if length_known:
            return
        for option, wanted in (("shuffle=True", self.shuffle), ('on_error="replace"', self.on_error == "replace")):
            if wanted:
                raise ValueError(
                    f"{option} needs a source of known length, such as a list; this one is an iterator. "
                    "asyncload.sources.from_urls(iterable) reads it into one"
                )


def check_counter(name: str, value: Any) -> None:
    """Seeds, epochs and indices, of which randomness is made: raises unless ``value`` is from 0 to 2**63 - 1."""
    _integer(name, value, least=0)
    if value >= 1 << 63:
        raise ValueError(f"{name}: expected less than 2**63, got {value}")


def _integer(name: str, value: Any, *, least: int, optional: bool = False) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an integer{' or None' if optional else ''}, got {value!r}")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")
