"""Places: how many requests may be under way, in all and to each host, and from when.

A request takes a place before its timers start and gives it back when it ends, so that a queue in here is never
mistaken for a slow server. Within a host, first come, first served; among hosts that have a place free, turns are
taken. A host that is full keeps its queue to itself: it neither holds places of the others nor stands in their way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

__all__ = ["Places"]


class _Host:
    __slots__ = ("busy", "in_turn", "waiting")

    def __init__(self) -> None:
        self.busy = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.in_turn = False


class Places:
    """``total`` places, of which at most ``per_host`` for one host.

    Belongs to one event loop. ``clock`` and ``sleep`` serve :meth:`not_before`.
    """

    def __init__(
        self, total: int, per_host: int, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]]
    ) -> None:
        self._total = total
        self._per_host = per_host
        self._clock = clock
        self._sleep = sleep
        self._free = total
        self._hosts: dict[str, _Host] = {}  # those with a request under way or waiting, and no others
        self._turns: deque[_Host] = deque()  # those that lack nothing but one of the total places
        self._not_before: dict[str, float] = {}

    @property
    def in_use(self) -> int:
        return self._total - self._free

    def not_before(self, host: str, seconds: float) -> None:
        """Let no request to ``host`` begin within ``seconds`` from now."""
        now = self._clock()
        while self._not_before:  # what was put in first is forgotten as soon as it is over: hosts may be millions
            oldest = next(iter(self._not_before))
            if self._not_before[oldest] > now:
                break
            del self._not_before[oldest]
        self._not_before[host] = max(now + seconds, self._not_before.get(host, 0.0))

    async def take(self, host: str) -> None:
        """Wait until ``host`` may be asked and a place for it is free, and take that. :meth:`give` gives it back."""
        while True:
            while self._not_before and (pause := self._not_before.get(host, 0.0) - self._clock()) > 0:
                await self._sleep(pause)
            state = self._hosts.get(host)
            if state is None:
                state = self._hosts[host] = _Host()
            if self._free and state.busy < self._per_host:
                state.busy += 1
                self._free -= 1
                return
            await self._wait(host, state)
            if not self._not_before or self._not_before.get(host, 0.0) <= self._clock():
                return
            self.give(host)

    async def _wait(self, host: str, state: _Host) -> None:
        waiter = asyncio.get_running_loop().create_future()
        state.waiting.append(waiter)
        self._line_up(state)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                if waiter in state.waiting:
                    state.waiting.remove(waiter)
                self._forget(host, state)
            else:
                self.give(host)  # it had been given a place in the same turn of the loop
            raise

    def give(self, host: str) -> None:
        """Give back the place taken for ``host``."""
        state = self._hosts[host]
        state.busy -= 1
        self._free += 1
        self._line_up(state)
        while self._free and self._turns:
            self._serve(self._turns.popleft())
        self._forget(host, state)

    def _serve(self, state: _Host) -> None:
        state.in_turn = False
        while state.waiting:
            waiter = state.waiting.popleft()
            if not waiter.done():
                state.busy += 1
                self._free -= 1
                waiter.set_result(None)
                break
        self._line_up(state)

    def _line_up(self, state: _Host) -> None:
        if state.waiting and state.busy < self._per_host and not state.in_turn:
            state.in_turn = True
            self._turns.append(state)

    def _forget(self, host: str, state: _Host) -> None:
        # A cancelled waiter may come late, when the host has been forgotten and met again.
        if not state.busy and not state.waiting and self._hosts.get(host) is state:
            del self._hosts[host]
