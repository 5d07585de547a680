"""X-Robots-Tag: whether the owner of an image has opted out.

The directives are those of search engines (https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag)
and those that image hosts use for training data, ``noai`` and ``noimageai``.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["opted_out"]

_OPT_OUTS = frozenset(["noai", "noimageai", "noindex", "noimageindex", "none"])
_WITH_VALUE = frozenset(["max-image-preview", "max-snippet", "max-video-preview", "unavailable_after"])


def opted_out(values: Iterable[str], agent: str) -> bool:
    """Whether the X-Robots-Tag headers ``values`` forbid the use of the answer by ``agent``, a name in lower case.

    A header is a list of directives. ``name:`` before one limits it and those behind it to the robot of that name,
    until another name follows.
    """
    for value in values:
        addressee = agent
        for item in value.lower().split(","):
            name, colon, directive = item.partition(":")
            if not colon:
                directive = name
            elif name.strip() in _WITH_VALUE:
                continue
            else:
                addressee = name.strip()
            if addressee in (agent, "*") and directive.strip() in _OPT_OUTS:
                return True
    return False
