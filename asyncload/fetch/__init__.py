"""URL to bytes: many at once, politely, and never more than was agreed to.

fetcher     Fetcher: attempts until one succeeds, within a deadline
client      one attempt: request, redirects, answer
body        the answer's body, into the caller's buffer
hosts       places in all and per host
retry       what is worth another attempt, and when
guard       which addresses may be connected to
robots      the owner's opt-out
urls        URLs as they were given, and where redirects lead
files       local files
resolver    names to addresses
foreign     exceptions of others, translated
job         what is kept of one URL on its way
settings    Http
"""

from __future__ import annotations

from asyncload.fetch.fetcher import Fetched, Fetcher
from asyncload.fetch.settings import Http

__all__ = ["Fetched", "Fetcher", "Http"]
