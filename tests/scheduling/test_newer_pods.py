"""`LowerOrNewerEqualPriority`: pods are newer if they were created later, and no pod is evicted for its own group."""

import pytest

from dray.planning.player import Player
from dray.testing import objects
from tests.scheduling.core import Core, bound, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_queues import cluster_queue, flavor, in_queue, local_queue, nominal, queued

NEWER = {"withinClusterQueue": "LowerOrNewerEqualPriority"}


def at(second):
    return f"2030-01-01T00:00:{second:02}Z"


def created(document, second):
    return {**document, "metadata": {**document["metadata"], "creationTimestamp": at(second)}}


def started(document, second):
    spec = {**document["spec"], "nodeName": "n"}
    return {**document, "spec": spec, "status": {"phase": "Running", "startTime": at(second)}}


def documents(*, cpu=2):
    yield from (objects.node("n", cpu="64"), flavor(), local_queue("team", "team"))
    yield cluster_queue("team", ("any", {"cpu": nominal(cpu)}), preemption=NEWER)


@pytest.mark.parametrize(("second", "evicted"), [(4, []), (5, []), (6, ["old"])])
def test_running_pods_are_newer_if_they_were_created_later_than_the_waiting_pod(second, evicted):
    core = Core(*documents(cpu=1))
    core.put(started(created(queued("old", cpu="1"), second), 30))
    core.put(created(queued("waiting", cpu="1"), 5))
    assert victims(core.settle()) == evicted


def test_a_gang_is_as_old_as_its_oldest_pod():
    core = Core(*documents(), gang("old", 2))
    for number, second in enumerate((1, 20)):
        core.put(started(created(in_queue(member(f"old-{number}", of="old", cpu="1")), second), 30))
    core.put(created(queued("waiting", cpu="1"), 5))
    assert victims(core.settle()) == []
    core.put(gang("older", 2))
    for number, second in enumerate((0, 20)):
        core.put(created(in_queue(member(f"older-{number}", of="older", cpu="1")), second))
    assert sorted(victims(core.settle())) == ["old-0", "old-1"]


def test_pods_that_start_a_while_after_they_were_created_do_not_evict_each_other_in_turn():
    player = Player([*documents(), *(created(queued(f"p{n}", cpu="1"), 0) for n in range(4))], recreate=True)
    for _ in range(5):
        player.settle()
        for pod in list(player.stored.of_kind("Pod")):
            if pod["spec"].get("nodeName"):
                player.put({**pod, "status": {**pod["status"], "startTime": at(59)}})
    assert player.evicted == []


@pytest.mark.parametrize("mode", [{}, {"disruptionMode": {"all": {}}}])
def test_a_pod_beyond_the_minimum_does_not_evict_its_own_group(mode):
    core = Core(*documents(), gang("g", 2, **mode))
    for number in range(2):
        core.put(started(created(in_queue(member(f"g-{number}", of="g", cpu="1")), 10), 30))
    core.put(created(in_queue(member("g-2", of="g", cpu="1")), 5))
    actions = core.settle()
    assert (bound(actions), victims(actions)) == ({}, [])


def test_an_urgent_pod_does_not_evict_pods_of_its_own_group_for_a_node():
    core = Core(objects.node("n", cpu="2"), gang("g", 2))
    for number in range(2):
        core.put(started(member(f"g-{number}", of="g", cpu="1"), 30))
    core.put(member("g-2", of="g", cpu="1", value=100))
    assert victims(core.settle()) == []
