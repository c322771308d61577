import asyncio
import contextlib
import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.client.queue import Stopped, WorkQueue
from dray.client.retries import Backoff


class FakeClock:
    def __init__(self):
        self.now = 0.0
        self._timers = []

    def time(self):
        return self.now

    def call_at(self, when, callback, *args):
        timer = Timer(when, len(self._timers), callback, args)
        heapq.heappush(self._timers, timer)
        return timer

    def advance(self, seconds):
        self.now += seconds
        while self._timers and self._timers[0].when <= self.now:
            timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                timer.callback(*timer.args)


class Timer:
    def __init__(self, when, number, callback, args):
        self.when, self.number, self.callback, self.args = when, number, callback, args
        self.cancelled = False

    def __lt__(self, other):
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self):
        self.cancelled = True


@pytest.fixture
def clock():
    return FakeClock()


def new(clock, **backoff):
    return WorkQueue(clock=clock, backoff=Backoff(**backoff), random=lambda: 0.0)


async def test_each_key_once_in_order(clock):
    queue = new(clock)
    for key in "abacab":
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_is_worked_on_by_one_at_a_time(clock):
    queue = new(clock)
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert len(queue) == 1
    queue.done(key)
    assert [await queue.get(), await queue.get()] == ["b", "a"]
    queue.done("a")
    assert len(queue) == 0


async def test_a_waiting_worker_is_woken(clock):
    queue = new(clock)
    workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in "abc":
        queue.add(key)
    assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]


async def test_a_cancelled_worker_passes_its_turn_on(clock):
    queue = new(clock)
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 30) == "a"


async def test_delays(clock):
    queue = new(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    queue.add_after("b", 0)
    assert (len(queue), await queue.get()) == (1, "b")
    clock.advance(4.9)
    assert len(queue) == 0
    clock.advance(0.1)
    assert await queue.get() == "a"
    clock.advance(100)
    assert len(queue) == 0


async def test_failures_come_back_later_and_later(clock):
    queue = new(clock, first=1, longest=5)
    for wait in (1, 2, 4, 5, 5):
        queue.add_failed("a")
        clock.advance(wait - 0.01)
        assert len(queue) == 0
        clock.advance(0.01)
        queue.done(await queue.get())
    assert queue.failures("a") == 5
    queue.forget("a")
    queue.add_failed("a")
    queue.add_failed("b")
    clock.advance(1)
    assert len(queue) == 2


async def test_a_stop_lets_work_finish(clock):
    queue = new(clock)
    for key in "ab":
        queue.add(key)
    queue.add_after("late", 1)
    idle = asyncio.ensure_future(queue.drained())
    first = await queue.get()
    queue.add("a")
    waiting = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.stop()
    queue.add("c")
    queue.add_after("c", 1)
    clock.advance(5)
    queue.done(first)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [results[0], results[1], type(results[2])] == ["b", "a", Stopped]
    queue.done("b")
    await asyncio.sleep(0)
    assert not idle.done()
    queue.done("a")
    await asyncio.wait_for(idle, 30)
    with pytest.raises(Stopped):
        await queue.get()


async def test_an_event_loop_is_a_clock():
    queue = WorkQueue()
    queue.add_after("a", 0.01)
    assert await asyncio.wait_for(queue.get(), 30) == "a"


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 4), st.integers(0, 2**32))
async def test_every_addition_is_followed_by_work(keys, workers, seed):
    """Whatever the timing: never two workers on a key, and the last addition of a key is seen by a later run."""
    # Hypothesis's own source of chance may end a task from within, and nobody would hear of it.
    rng = random.Random(seed)
    added, seen, working = {}, {}, set()

    async def work(queue):
        with contextlib.suppress(Stopped):
            while True:
                key = await queue.get()
                assert key not in working
                working.add(key)
                seen[key] = added[key]
                for _ in range(rng.randrange(3)):
                    await asyncio.sleep(0)
                working.discard(key)
                queue.done(key)

    queue = new(FakeClock())
    tasks = [asyncio.ensure_future(work(queue)) for _ in range(workers)]
    for number, key in enumerate(keys):
        added[key] = number
        queue.add(key)
        if rng.random() < 0.5:
            await asyncio.sleep(0)
    await asyncio.wait_for(queue.drained(), 30)
    queue.stop()
    await asyncio.gather(*tasks)
    assert seen == added
