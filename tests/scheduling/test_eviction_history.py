"""Evictions that follow each other in a circle come to an end."""

from dray.scheduling.core.eviction_history import LIMIT, WINDOW, EvictionHistory
from dray.testing import objects
from tests.scheduling.core import Core, pod
from tests.scheduling.models import pod as read
from tests.scheduling.test_queues import cluster_queue, flavor, local_queue, nominal, queued
from tests.scheduling.test_reclaim_ends import run

ANY = {"reclaimWithinCohort": "Any"}


def note(history, *pairs, times=LIMIT, now=0.0):
    for _ in range(times):
        for asking, victim in pairs:
            history.note(read(asking), [read(victim)], now)


def test_pods_that_evicted_each_other_too_often_are_spared():
    history = EvictionHistory()
    note(history, ("a", "b"), ("b", "c"), ("c", "a"))
    assert history.spares(read("a"), read("b"), 1.0)
    assert history.spares(read("c"), read("a"), 1.0)
    assert not history.spares(read("d"), read("a"), 1.0)


def test_evictions_in_one_direction_are_not_limited():
    history = EvictionHistory()
    note(history, ("a", "b"), ("b", "c"), times=10 * LIMIT)
    assert not history.spares(read("a"), read("b"), 1.0)


def test_evictions_are_forgotten_after_an_hour():
    history = EvictionHistory()
    note(history, ("a", "b"), ("b", "a"))
    assert history.spares(read("a"), read("b"), WINDOW - 1)
    assert not history.spares(read("a"), read("b"), WINDOW + 1)


def test_evictions_are_as_old_as_before_when_the_clock_is_set():
    history = EvictionHistory()
    note(history, ("a", "b"), ("b", "a"))
    history.clock_set(2 * WINDOW)
    assert history.spares(read("a"), read("b"), 2 * WINDOW + 1)


def test_pods_of_one_controller_count_together():
    def owned(name):
        made = read(name)
        made.document["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]
        return made

    history = EvictionHistory()
    for number in range(LIMIT):
        history.note(owned(f"j-{number}"), [read("x")], 0.0)
        history.note(read("x"), [owned(f"j-{number}")], 0.0)
    assert history.spares(owned("j-9"), read("x"), 1.0)


def test_three_parties_that_evict_each_other_in_turn_come_to_rest():
    """By quota, by priority for a place, and by priority again: each of them beats the next."""
    core = Core(objects.node("n", cpu="1"), flavor(), local_queue("a", "a"), local_queue("b", "b"))
    core.put(cluster_queue("a", ("any", {"cpu": nominal(1)}), cohort="org", preemption=ANY))
    core.put(cluster_queue("b", ("any", {"cpu": nominal(0)}), cohort="org"))
    core.put(queued("owner", "a", cpu="1"))
    core.settle()
    core.put(pod("plain", cpu="1", value=5))
    core.put(queued("borrower", "b", cpu="1", value=10))

    def again(document):
        metadata = {key: value for key, value in document["metadata"].items() if key in ("name", "labels")}
        spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
        core.put({**document, "metadata": metadata, "spec": spec, "status": {}})

    gone = run(core, again, most=100)
    assert len(gone) <= 3 * LIMIT
