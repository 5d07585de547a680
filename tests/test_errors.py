from __future__ import annotations

import inspect
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncload import errors
from asyncload.errors import Failure, HTTPStatusError, SampleError, mask_url
from asyncload.types import Item

KINDS = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, SampleError)]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_cross_processes_whole(kind: type[SampleError]) -> None:
    error = kind("what happened", reason="why", status=503, attempts=4, bytes=17, seconds=1.5)
    error.add_note("while loading")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "what happened"
    assert (again.reason, again.status, again.attempts, again.bytes, again.seconds) == ("why", 503, 4, 17, 1.5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_can_be_made_of_its_message_alone(kind: type[SampleError]) -> None:
    """So torch raises an error of a DataLoader worker again in the trainer."""
    assert str(kind("what happened")) == "what happened"


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    for name in errors.__all__:
        if name not in ("Failure", "mask_url"):
            assert f" {name}" in errors.__doc__


def test_a_failure_is_the_error_without_the_exception() -> None:
    error = HTTPStatusError("gone", reason="http_status", status=410, attempts=1, seconds=0.5)
    failure = Failure.of(Item(7, "https://me:pw@a.org/b.jpg?key=secret"), error)
    assert failure == Failure(7, "https://a.org/b.jpg?key=***", "fetch", "http_status", 410, 1, 0, 0.5, "gone")
    assert pickle.loads(pickle.dumps(failure)) == failure


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://a.org/b.jpg", "https://a.org/b.jpg"),
        ("https://user:password@a.org:8080/b.jpg", "https://a.org:8080/b.jpg"),
        ("https://a.org/b.jpg?x=1&token=abc#frag", "https://a.org/b.jpg?x=***&token=***"),
        ("https://a.org/b.jpg?barekey", "https://a.org/b.jpg?***"),
        ("https://user@[::1]:80/b", "https://[::1]:80/b"),
        ("photos/a b.jpg", "photos/a b.jpg"),
        ("/data/100%.jpg", "/data/100%.jpg"),
        ("http://[broken/a", "(malformed URL)"),
    ],
)
def test_secrets_are_masked(url: str, masked: str) -> None:
    assert mask_url(url) == masked


@given(st.text())
def test_masking_never_fails(url: str) -> None:
    mask_url(url)
