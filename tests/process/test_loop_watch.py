"""Who held the event loop, for how long, and what happens when it never comes back."""

import asyncio
import logging
import os
import threading
import time

from prometheus_client import CollectorRegistry

from dray.process.loop_watch import LoopWatch
from tests.attacks.processes import Starvation


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_a_task_that_holds_the_loop_is_named(caplog):
    registry = CollectorRegistry()
    with caplog.at_level(logging.WARNING), LoopWatch(registry).watching():
        await asyncio.sleep(0.1)

        async def work():
            compute(0.8)

        await asyncio.create_task(work(), name="job: default/slow")
        await asyncio.sleep(0.1)
    # On a busy machine there may be others.
    assert any("job: default/slow" in line for line in caplog.messages)
    assert registry.get_sample_value("dray_event_loop_stalls_total") == len(caplog.messages)
    assert registry.get_sample_value("dray_event_loop_longest_delay_seconds") > 0.5
    assert 0.7 < registry.get_sample_value("dray_event_loop_longest_computation_seconds") < 1.5


async def test_time_in_which_it_sleeps_or_has_no_cpu_is_not_computed():
    registry = CollectorRegistry()
    with LoopWatch(registry).watching():
        await asyncio.sleep(0.1)
        time.sleep(0.4)
        await asyncio.sleep(0.1)
    assert registry.get_sample_value("dray_event_loop_longest_delay_seconds") > 0.2
    assert registry.get_sample_value("dray_event_loop_longest_computation_seconds") < 0.2


async def test_a_loop_that_sleeps_is_not_blamed(caplog):
    starvation = Starvation([os.getpid()])
    with caplog.at_level(logging.WARNING), LoopWatch().watching():
        await asyncio.sleep(0.7)
    assert not caplog.messages or starvation.seconds > 0.2


async def test_a_loop_that_never_comes_back_is_reported_from_outside():
    reported, told = [], threading.Event()

    def hung(stall):
        reported.append(stall)
        told.set()

    watch = LoopWatch()
    watch.limit(0.6, hung)
    with watch.watching():
        await asyncio.sleep(0.1)

        async def work():
            while not told.is_set():
                compute(0.01)

        await asyncio.create_task(work(), name="scheduler: default/hard")
    (stall,) = reported
    assert stall.task == "scheduler: default/hard"
    assert stall.seconds >= 0.6


async def test_time_without_computing_is_no_hang():
    reported = []
    watch = LoopWatch()
    watch.limit(0.2, reported.append)
    with watch.watching():
        await asyncio.sleep(0.1)
        # As a machine that was suspended, or a process that was stopped.
        time.sleep(0.9)
        await asyncio.sleep(0.1)
    assert not reported
