from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from asyncload.fetch.hosts import Places


@pytest.fixture
def places(virtual: Any) -> Callable[[int, int], Places]:
    return lambda total, per_host: Places(total, per_host, virtual.clock, virtual.sleep)


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Lane:
    """A task that takes a place and keeps it until it is told to give it back."""

    def __init__(self, places: Places, host: str, log: list[str] | None = None, name: str = "") -> None:
        self._end = asyncio.Event()
        self.has = False

        async def run() -> None:
            await places.take(host)
            self.has = True
            if log is not None:
                log.append(name or host)
            try:
                await self._end.wait()
            finally:
                places.give(host)
                self.has = False

        self.task = asyncio.ensure_future(run())

    async def end(self) -> None:
        self._end.set()
        await self.task

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_at_most_so_many_in_all_and_per_host(places: Callable[[int, int], Places]) -> None:
    bounded = places(3, 2)
    lanes = [Lane(bounded, host) for host in "aaabbb"]
    await _turns()
    assert [lane.has for lane in lanes] == [True, True, False, True, False, False]
    assert bounded.in_use == 3
    for lane in lanes:
        await lane.end()
    assert bounded.in_use == 0


async def test_within_a_host_first_come_first_served(places: Callable[[int, int], Places]) -> None:
    bounded, log = places(1, 1), list[str]()
    lanes = [Lane(bounded, "a", log, name) for name in "123456"]
    await _turns()
    for lane in lanes:
        await lane.end()
    assert log == list("123456")


async def test_a_full_host_holds_up_nobody_else(places: Callable[[int, int], Places]) -> None:
    bounded = places(4, 2)
    queue = [Lane(bounded, "slow") for _ in range(100)]
    await _turns()
    others = [Lane(bounded, "a"), Lane(bounded, "b")]
    await _turns()
    assert [lane.has for lane in others] == [True, True]
    assert sum(lane.has for lane in queue) == 2
    for lane in others + queue:
        await lane.cancel()
    assert bounded.in_use == 0


async def test_hosts_take_turns_for_the_total(places: Callable[[int, int], Places]) -> None:
    bounded, log = places(1, 1), list[str]()
    lanes = [Lane(bounded, host, log) for host in "aaabbc"]
    await _turns()
    while any(not lane.task.done() for lane in lanes):
        await next(lane for lane in lanes if lane.has).end()
        await _turns()
    assert log == ["a", "b", "c", "a", "b", "a"]


async def test_a_cancelled_waiter_leaves_the_queue(places: Callable[[int, int], Places]) -> None:
    bounded = places(2, 1)
    first, second, third = (Lane(bounded, "a") for _ in range(3))
    await _turns()
    await second.cancel()
    await first.end()
    await _turns()
    assert third.has
    await third.end()
    assert bounded.in_use == 0


async def test_a_waiter_cancelled_just_after_it_was_served_passes_its_place_on(
    places: Callable[[int, int], Places],
) -> None:
    bounded = places(1, 1)
    await bounded.take("a")
    second, third = Lane(bounded, "a"), Lane(bounded, "a")
    await _turns()
    bounded.give("a")  # serves the second, which has not run since
    second.task.cancel()
    await _turns()
    assert third.has
    assert not second.has
    await third.end()
    assert bounded.in_use == 0


async def test_a_waiter_that_learns_late_of_its_cancellation_disturbs_nobody(
    places: Callable[[int, int], Places],
) -> None:
    bounded = places(1, 1)
    await bounded.take("a")
    waiter = Lane(bounded, "a")
    await _turns()
    waiter.task.cancel()
    bounded.give("a")  # forgets the host
    await bounded.take("a")
    await _turns()
    assert bounded.in_use == 1
    bounded.give("a")
    assert bounded.in_use == 0


async def test_idle_hosts_are_forgotten(places: Callable[[int, int], Places]) -> None:
    bounded = places(1, 1)
    for number in range(100):
        host = f"h{number}"
        await bounded.take(host)
        waiter = Lane(bounded, host)
        await _turns(2)
        await waiter.cancel()
        bounded.give(host)
        bounded.not_before(host, 0.0)
    assert len(bounded._hosts) == 0
    assert len(bounded._not_before) == 1
    await bounded.take("a")
    waiter = Lane(bounded, "b")  # for one of the total places
    await _turns(2)
    await waiter.cancel()
    assert list(bounded._hosts) == ["a"]


async def test_nothing_is_lost_whoever_is_cancelled(places: Callable[[int, int], Places]) -> None:
    rng, bounded = Random(0), places(5, 2)
    lanes: list[Lane] = []
    for _ in range(2000):
        lanes.append(Lane(bounded, rng.choice("abcdef")))
        await _turns(rng.randrange(3))
        lane = lanes.pop(rng.randrange(len(lanes)))
        if rng.random() < 0.5:
            lane.task.cancel()
            lanes += [Lane(bounded, "a")] if rng.random() < 0.1 else []
        elif lane.has:
            lane._end.set()
        else:
            lanes.append(lane)
        held = [lane for lane in lanes if lane.has]
        assert len(held) <= 5
    await _turns()
    while waiting := [lane for lane in lanes if not lane.task.done()]:
        await next(lane for lane in waiting if lane.has).end()
        await _turns()
    assert bounded.in_use == 0
    assert not bounded._hosts


async def test_not_before(places: Callable[[int, int], Places], virtual: Any) -> None:
    bounded = places(1, 1)
    bounded.not_before("a", 30.0)
    bounded.not_before("a", 10.0)  # does not shorten it
    await bounded.take("b")
    assert virtual.slept == []
    bounded.give("b")
    await bounded.take("a")
    assert virtual.slept == [30.0]
    bounded.give("a")


async def test_who_queues_when_a_pause_is_asked_for_waits_without_a_place(
    places: Callable[[int, int], Places], virtual: Any
) -> None:
    bounded = places(1, 1)
    first, second = Lane(bounded, "a"), Lane(bounded, "a")
    await _turns()
    bounded.not_before("a", 5.0)
    seen: list[int] = []
    sleep = virtual.sleep

    async def look(seconds: float) -> None:
        seen.append(bounded.in_use)
        await sleep(seconds)

    bounded._sleep = look
    await first.end()
    await _turns()
    assert seen == [0]
    assert second.has
    await second.end()
