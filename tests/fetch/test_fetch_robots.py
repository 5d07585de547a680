from __future__ import annotations

import pytest

from asyncload.fetch.robots import opted_out


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (["noai"], True),
        (["NoImageAI"], True),
        (["nofollow, noindex"], True),
        (["noimageindex"], True),
        (["none"], True),
        (["all"], False),
        (["nofollow", "noarchive"], False),
        (["all", "noai"], True),
        (["asyncload: noai"], True),
        (["AsyncLoad : noai"], True),
        (["*: noai"], True),
        (["googlebot: noindex"], False),
        (["googlebot: nofollow, noindex"], False),
        (["googlebot: noindex, asyncload: noai"], True),
        (["googlebot: noindex", "noai"], True),
        (["max-image-preview: none"], False),
        (["max-snippet: -1, noai"], True),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST, noindex"], True),
        (["noaix, xnoai"], False),
        ([""], False),
    ],
)
def test_who_has_opted_out(headers: list[str], expected: bool) -> None:
    assert opted_out(headers, "asyncload") is expected
