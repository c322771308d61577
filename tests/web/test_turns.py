"""Turns are fair between viewers, however much one of them asks for."""

from __future__ import annotations

import asyncio

from dray.web.turns import Turns


async def test_a_viewer_who_asks_for_much_does_not_hold_up_others() -> None:
    turns, done = Turns(2), list[str]()
    going = {name: asyncio.Event() for name in ("first", "other")}
    may_end = asyncio.Event()

    async def work(viewer: str, name: str) -> None:
        async with turns.turn(viewer):
            if name in going:
                going[name].set()
                await may_end.wait()
            done.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(work("greedy", "first"))
        await going["first"].wait()
        for number in range(20):
            group.create_task(work("greedy", f"more-{number}"))
        group.create_task(work("ann", "other"))
        await going["other"].wait()
        assert (done, turns.asked("greedy"), turns.asked("ann")) == ([], 21, 1)
        may_end.set()
    assert len(done) == 22
    assert (turns.asked("greedy"), turns._locks) == (0, {})


async def test_a_turn_that_is_given_up_is_free_for_the_next() -> None:
    turns = Turns(1)
    async with turns.turn("ann"):
        waiting = asyncio.create_task(turns.turn("bob").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    async with asyncio.timeout(30), turns.turn("bob"):
        assert turns.asked("bob") == 1
