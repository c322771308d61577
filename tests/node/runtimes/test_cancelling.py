"""Work that is done to its end although its caller is cancelled."""

import asyncio

import pytest

from dray.node.runtimes.cancelling import finished


async def test_its_result_and_its_error_are_those_of_the_work():
    assert await finished(asyncio.sleep(0, "done")) == "done"

    async def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await finished(fail())


@pytest.mark.parametrize("fails", [False, True])
async def test_it_is_done_however_often_the_caller_is_cancelled(fails):
    steps, going = [], asyncio.Event()

    async def work():
        steps.append("begun")
        await going.wait()
        steps.append("done")
        if fails:
            raise ValueError("nobody hears it")

    caller = asyncio.create_task(finished(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.sleep(0.01)
    assert (steps, caller.done()) == (["begun"], False)
    going.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert steps == ["begun", "done"]
