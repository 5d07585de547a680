"""Where items come from.

A source of known length is a ``Sequence[Item]``: it is asked for an item when that item's turn comes, and is never
copied into a worker. Plain lists of URLs, lists of ``(url, label)`` pairs and iterables of either are sources too.
"""

from asyncload.sources.folder import FolderSource, from_folder
from asyncload.sources.urls import AnySource, UrlSource, as_source, from_urls

__all__ = ["AnySource", "FolderSource", "UrlSource", "as_source", "from_folder", "from_urls"]
