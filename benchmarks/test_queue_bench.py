"""How fast queues let pods in: the scheduler's core, with every decision taken as written.

The bounds are those the project promises for two cores, in CPU time of one.
"""

import time

import pytest

from dray.scheduling.actions import Bind
from dray.scheduling.scheduler import Scheduler
from dray.testing import objects
from tests import gpus
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal

NODES = 500


def put(scheduler, document):
    metadata = {"uid": f"{document['kind']}-{document['metadata']['name']}", "namespace": "default"}
    scheduler.put(document["kind"], {**document, "metadata": {**metadata, **document["metadata"]}}, 0.0)


def world(queues, cohorts, quota, **preemption):
    scheduler = Scheduler()
    put(scheduler, gpus.device_class("gpu"))
    put(scheduler, flavor())
    for number in range(NODES):
        put(scheduler, objects.node(f"n{number}", cpu="1000", pods="1000"))
        put(scheduler, gpus.slice_of(f"n{number}", 8))
    for number in range(queues):
        cohort = f"c{number % cohorts}"
        quotas = {GPU: nominal(quota)}
        put(scheduler, cluster_queue(f"q{number}", ("any", quotas), cohort=cohort, preemption=preemption))
        put(scheduler, local_queue(f"q{number}", f"q{number}"))
    return scheduler


def submit(scheduler, name, queue):
    put(scheduler, objects.claim(name))
    put(scheduler, objects.pod(name, claims=[name], labels={QUEUE: queue}))


def work_off(scheduler):
    """The pods that were bound."""
    bound = []
    while (action := scheduler.next(0.0)) is not None:
        if isinstance(action, Bind):
            bound.append(action)
            for write in action.writes:
                status = {"allocation": write.allocation, "reservedFor": [write.consumer]}
                scheduler.written(action, write, {**write.claim, "status": status}, 0.0)
            scheduler.bound(action, 0.0)
            document = action.pod.document
            spec = {**document["spec"], "nodeName": action.node}
            scheduler.put("Pod", {**document, "spec": spec}, 0.0)
    return bound


def finish(scheduler, action):
    scheduler.remove("Pod", action.pod.document, 0.0)
    for claim in scheduler.state.claims.used_by(action.pod.uid):
        metadata = {**claim["metadata"], "resourceVersion": "9"}
        scheduler.put("ResourceClaim", {**claim, "metadata": metadata, "status": {}}, 0.0)


@pytest.mark.benchmark(timer=time.process_time)
def test_fifteen_thousand_workloads_in_thirty_queues(benchmark):
    """Each ends when all have been let in that there is quota for, until none is left."""

    def run():
        scheduler = world(30, 5, 100)
        for number in range(15_000):
            submit(scheduler, f"w{number}", f"q{number % 30}")
        done = 0
        running = work_off(scheduler)
        while running:
            done += 1
            finish(scheduler, running.pop())
            running += work_off(scheduler)
        return done

    assert benchmark.pedantic(run, rounds=1) == 15_000
    assert 15_000 / benchmark.stats.stats.median > 300


@pytest.mark.benchmark(timer=time.process_time)
def test_reclaim_one_of_four_thousand(benchmark):
    def setup():
        scheduler = world(2, 1, 2000, reclaimWithinCohort="Any")
        for number in range(4000):
            submit(scheduler, f"b{number}", "q1")
        assert len(work_off(scheduler)) == 4000
        submit(scheduler, "a", "q0")
        return (scheduler,), {}

    action = benchmark.pedantic(lambda scheduler: scheduler.next(0.0), setup=setup, rounds=2)
    assert len(action.preemption.victims) == 1
    assert benchmark.stats.stats.median < 0.2
