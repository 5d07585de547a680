"""A real local HTTP server of generated photographs, with faults chosen by path: for tests, demos and examples.

::

    from asyncload.testing import ImageServer

    with ImageServer(count=100) as server:
        for sample in asyncload.stream(server.pairs()): ...

    with ImageServer(count=1) as server:
        url = server.fault_url(0, "truncate", times=2)     # cut short twice, then whole
        gate = server.hold(url)                            # the answer waits for gate.release()

What a fault does to the wire is in the table of :mod:`asyncload.testing.faults`. ``python -m asyncload.testing`` runs
a server until Ctrl-C. Only numpy and Pillow are needed, and nothing else of asyncload.

    server.py       ImageServer                                  <- connection registry photographs
    connection.py   one client's connection                      <- gate reply traffic
    faults.py       what can go wrong, one function each         <- registry
    registry.py     faults by name, paths that ask for them      <- reply
    reply.py        an answer, written down so that it can be spoilt
    gate.py         requests held until a test lets them go
    traffic.py      what the server saw
    photographs.py  pictures as files of many kinds              <- scenes
    scenes.py       ten kinds of landscape                       <- canvas
    canvas.py       the strokes that they are painted with
"""

from __future__ import annotations

from asyncload.testing import faults
from asyncload.testing.gate import Gate
from asyncload.testing.photographs import Photograph
from asyncload.testing.registry import FAULTS, fault
from asyncload.testing.reply import End, Reply
from asyncload.testing.server import ImageServer
from asyncload.testing.traffic import Request

__all__ = ["FAULTS", "End", "Gate", "ImageServer", "Photograph", "Reply", "Request", "fault", "faults"]
