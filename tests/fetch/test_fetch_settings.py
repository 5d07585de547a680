from __future__ import annotations

import pickle
import ssl
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from asyncload.fetch import Http


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"connections": 0}, ValueError, "connections: expected at least 1, got 0"),
        ({"connections": 2.5}, TypeError, "connections: expected an integer, got 2.5"),
        ({"per_host": True}, TypeError, "per_host: expected an integer"),
        ({"retries": -1}, ValueError, "retries: expected at least 0"),
        ({"max_redirects": "5"}, TypeError, "max_redirects"),
        ({"timeout": 0}, ValueError, "timeout: expected a positive, finite"),
        ({"deadline": float("inf")}, ValueError, "deadline"),
        ({"read_timeout": float("nan")}, ValueError, "read_timeout"),
        ({"connect_timeout": None}, TypeError, "connect_timeout: expected a number of seconds"),
        ({"max_bytes": 2**30}, ValueError, "buffer_bytes: expected at least max_bytes"),
        ({"verify": None}, TypeError, "verify"),
        ({"allow_private": 1}, TypeError, "allow_private: expected True or False, got 1"),
        ({"allow_hosts": "cdn.internal"}, TypeError, "allow_hosts: expected a tuple"),
        ({"allow_hosts": ("http://cdn",)}, ValueError, "without scheme, port and path"),
        ({"allow_hosts": ("cdn:80",)}, ValueError, "without scheme, port and path"),
        ({"allow_hosts": (1,)}, TypeError, "allow_hosts"),
        ({"headers": [("a", "b")]}, TypeError, "headers: expected a mapping"),
        ({"headers": {"a": 1}}, TypeError, "headers: expected strings, got 'a' with a int"),
        ({"headers": {"a b": "c"}}, ValueError, "expected the name of a header"),
        ({"headers": {"a": "b\r\nc: d"}}, ValueError, "on one line"),
        ({"headers": {"Host": "x"}}, ValueError, "'Host' is set for each request"),
        ({"user_agent": ""}, ValueError, "user_agent"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(settings: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Http(**settings)


def test_secrets_are_neither_shown_nor_repeated_in_errors() -> None:
    assert "secret" not in repr(Http(headers={"Authorization": "secret"}))
    with pytest.raises(ValueError, match="Authorization") as caught:
        Http(headers={"Authorization": "secret\n"})
    assert "secret" not in str(caught.value)


def test_it_cannot_be_changed() -> None:
    given = {"X-Key": "1"}
    http = Http(headers=given)
    given["X-Key"] = "2"
    assert dict(http.headers) == {"X-Key": "1"}
    with pytest.raises(TypeError):
        http.headers["X-Key"] = "3"  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        http.retries = 1  # type: ignore[misc]


def test_it_travels() -> None:
    http = Http(headers={"X-Key": "1"}, allow_hosts=("CDN.internal", "[::1]"), retries=1)
    assert pickle.loads(pickle.dumps(http)) == http
    assert hash(http) == hash(pickle.loads(pickle.dumps(http)))
    assert http.allow_hosts == ("cdn.internal", "::1")


def test_a_context_of_the_callers_own_is_accepted() -> None:
    context = ssl.create_default_context()
    assert Http(verify=context).verify is context


def test_the_default_user_agent_says_who_asks() -> None:
    assert Http().user_agent.startswith("asyncload/")
    assert "https://" in Http().user_agent
