from __future__ import annotations

import pytest
from yarl import URL

from asyncload.errors import BlockedError, FetchError
from asyncload.fetch.urls import is_http, local_path, parse_http, redirect_target

SIGNED = "/a%2Fb/%7Ex+y%20z.jpg?X-Amz-Signature=AbC%2b%3d%3D&X-Amz-Credential=AK%2F2024%2f&e=a+b;c&q='()*!%41~|{}\"^`\\"


def test_a_signed_url_is_sent_as_it_was_given() -> None:
    assert parse_http("https://bucket.example" + SIGNED).raw_path_qs == SIGNED


@pytest.mark.parametrize(
    ("url", "host", "target"),
    [
        ("http://h", "h", "/"),
        ("http://h?a=b", "h", "/?a=b"),
        ("HTTP://h/x#part", "h", "/x"),
        ("http://h/a/../b", "h", "/a/../b"),
        ("http://h/x y?q=%2b ü", "h", "/x%20y?q=%2b%20%C3%BC"),
        (" http://h/x\n", "h", "/x"),
        ("http://h/x\r\nEvil: 1", "h", "/x%0D%0AEvil:%201"),
        ("http://é.example/%7e/é", "xn--9ca.example", "/%7e/%C3%A9"),
        ("http://[::1]:8080/x", "::1", "/x"),
    ],
)
def test_only_what_cannot_be_sent_is_encoded(url: str, host: str, target: str) -> None:
    parsed = parse_http(url)
    assert (parsed.raw_host, parsed.raw_path_qs) == (host, target)


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///x",
        "http://[::1]@",
        "http://:80/x",
        "http://h:x/",
        "http://h:99999/",
        "http://[::1/",
        "http://h\\@e/",
        "http://a b/",
        "http://h\r\nEvil: 1/x",
        "http://h\0/é",
    ],
)
def test_a_malformed_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        parse_http(url)
    assert caught.value.reason == "bad_url"
    assert url not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("a.jpg", "a.jpg"),
        ("/data/a%20b.jpg", "/data/a%20b.jpg"),
        ("C:\\data\\a.jpg", "C:\\data\\a.jpg"),
        ("d:/a.jpg", "d:/a.jpg"),
        ("a:b.jpg", "a:b.jpg"),
        ("x/http://y", "x/http://y"),
        ("file:///data/a%20b.jpg", "/data/a b.jpg"),
        ("file:/data/a.jpg", "/data/a.jpg"),
        ("FILE://localhost/a.jpg", "/a.jpg"),
    ],
)
def test_paths_of_this_machine(url: str, path: str) -> None:
    assert not is_http(url)
    assert local_path(url) == path


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("file://elsewhere/a.jpg", "this machine"),
        ("file:a.jpg", "this machine"),
        ("file://", "this machine"),
        ("file://[/a.jpg", "this machine"),
        ("ftp://h/a.jpg", "scheme 'ftp'"),
        ("s3://bucket/key", "scheme 's3'"),
        ("data:image/png;base64,AAAA", "scheme 'data'"),
    ],
)
def test_what_else_a_url_may_be_is_refused(url: str, text: str) -> None:
    with pytest.raises(FetchError, match=text) as caught:
        local_path(url)
    assert caught.value.reason == "bad_url"


BASE = URL("http://h:81/a%2f/b?c", encoded=True)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("x.jpg", "http://h:81/a%2f/x.jpg"),
        ("/x%2f?s=%2b", "http://h:81/x%2f?s=%2b"),
        ("?x", "http://h:81/a%2f/b?x"),
        ("//other/x", "http://other/x"),
        ("https://other/%7e x", "https://other/%7e%20x"),
        ("http:x", "http://h:81/a%2f/x"),
        ("http:///x", "http://h:81/x"),
        ("caf\udce9.jpg", "http://h:81/a%2f/caf%E9.jpg"),
        ("http://user:password@other/x", "http://other/x"),
    ],
)
def test_where_a_redirect_leads(location: str, target: str) -> None:
    assert str(redirect_target(BASE, location)) == target


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file:///etc/passwd", "blocked_scheme"),
        ("ftp://h/x", "blocked_scheme"),
        ("javascript:alert(1)", "blocked_scheme"),
        ("http://[", "bad_redirect"),
        ("https:///x", "bad_redirect"),
        ("http://h:x/", "bad_redirect"),
    ],
)
def test_where_no_redirect_is_followed(location: str, reason: str) -> None:
    with pytest.raises(BlockedError) as caught:
        redirect_target(BASE, location)
    assert caught.value.reason == reason


def test_https_is_not_left() -> None:
    with pytest.raises(BlockedError, match="from https to http") as caught:
        redirect_target(URL("https://h/"), "http://h/")
    assert caught.value.reason == "bad_redirect"
