"""What the page keeps for viewers is dropped after the last visit, and never under somebody who looks."""

from __future__ import annotations

import asyncio

from dray.web.visits import Visits


class Kept:
    def __init__(self) -> None:
        self.drops = 0
        self.going = asyncio.Event()
        self.may_end = asyncio.Event()

    async def drop(self) -> None:
        self.going.set()
        await self.may_end.wait()
        self.drops += 1


async def test_nothing_is_dropped_while_somebody_looks() -> None:
    kept = Kept()
    kept.may_end.set()
    visits = Visits(kept.drop, seconds=0.01)
    async with visits.visit():
        async with visits.visit():
            pass
        await asyncio.sleep(0.05)
        assert kept.drops == 0
    await asyncio.wait_for(kept.going.wait(), 30)
    await visits.close()
    assert kept.drops == 1


async def test_a_visit_waits_for_the_end_of_what_is_being_dropped() -> None:
    kept = Kept()
    visits = Visits(kept.drop, seconds=0.0)
    async with visits.visit():
        pass
    await kept.going.wait()

    async def look() -> int:
        async with visits.visit():
            return kept.drops

    looking = asyncio.create_task(look())
    await asyncio.sleep(0.02)
    assert not looking.done()
    kept.may_end.set()
    assert await looking == 1
    await visits.close()
