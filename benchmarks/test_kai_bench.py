"""How fast queues of KAI have their turns: the scheduler's core, with every decision taken as written.

The bounds are those the project promises for two cores, in CPU time of one.
"""

import time

import pytest

from benchmarks.test_queue_bench import NODES, finish, put, work_off
from dray.scheduling.scheduler import Scheduler
from dray.testing import objects
from tests import gpus
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_vectors_kai import LABEL


def world(queues, departments, nodes=NODES, **quota):
    scheduler = Scheduler()
    put(scheduler, gpus.device_class("gpu"))
    for number in range(nodes):
        put(scheduler, objects.node(f"n{number}", cpu="1000", pods="1000"))
        put(scheduler, gpus.slice_of(f"n{number}", 8))
    for number in range(departments):
        put(scheduler, queue(f"d{number}"))
    for number in range(queues):
        put(scheduler, queue(f"q{number}", f"d{number % departments}", **quota))
    return scheduler


def submit(scheduler, name, to):
    put(scheduler, objects.claim(name))
    put(scheduler, objects.pod(name, claims=[name], labels={LABEL: to}))


def work_through(scheduler, number):
    """Each ends when all have been placed that there is room for, until none is left."""
    for each in range(number):
        submit(scheduler, f"w{each}", f"q{each % 30}")
    done, now = 0, 0.0
    running = work_off(scheduler)
    while running:
        done, now = done + 1, now + 1.0
        finish(scheduler, running.pop())
        running += work_off(scheduler, now)
    return done


@pytest.mark.parametrize("limit", [100, -1], ids=["limits", "devices"])
@pytest.mark.benchmark(timer=time.process_time)
def test_fifteen_thousand_pods_in_thirty_queues(benchmark, limit):
    """They wait for the limits of their queues, or for devices."""

    def run():
        return work_through(world(30, 5, limit=limit), 15_000)

    assert benchmark.pedantic(run, rounds=1) == 15_000
    assert 15_000 / benchmark.stats.stats.median > 300


@pytest.mark.benchmark(timer=time.process_time)
def test_reclaim_one_of_four_thousand(benchmark):
    def setup():
        scheduler = world(2, 1, quota=2000)
        for number in range(4000):
            submit(scheduler, f"b{number}", "q1")
        assert len(work_off(scheduler)) == 4000
        submit(scheduler, "a", "q0")
        return (scheduler,), {}

    action = benchmark.pedantic(lambda scheduler: scheduler.next(0.0), setup=setup, rounds=2)
    assert len(action.preemption.victims) == 1
    assert benchmark.stats.stats.median < 0.2
