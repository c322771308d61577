"""Groups that start together go together: no eviction leaves a part of a group that can do nothing."""

import os
from collections import Counter
from contextlib import suppress
from random import Random

import pytest

from dray.api.times import text_of
from dray.planning.player import Endless, Player
from dray.testing import objects
from tests import gpus
from tests.scheduling.test_kai_groups import job, kai_group
from tests.scheduling.test_queued_groups import EXTENDED, PREFIX, hosts, kai_queue, members
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal

FIRST = int(os.environ.get("DRAY_WALK_SEED", "1"))
WORLDS = int(os.environ.get("DRAY_CORE_WALK_ROUNDS", "20"))
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "g", "uid": "uid-g", "controller": True}


def pods(name, number, *, priority=0, dra=False, labels=None, annotations=None, **spec):
    return members(
        number, dra=dra, labels=labels or {}, annotations=annotations, prefix=f"{name}-", priority=priority, **spec
    )


def kueue_group(name, number, *, queue="team", **more):
    labels = {QUEUE: queue, f"{PREFIX}pod-group-name": name}
    yield from pods(name, number, labels=labels, annotations={f"{PREFIX}pod-group-total-count": str(number)}, **more)


def team(number=64, name="team", **more):
    """A queue with quota for so many GPUs."""
    quota = {GPU: nominal(number), EXTENDED: nominal(number)}
    return [cluster_queue(name, ("any", quota), **more), local_queue(name, name)]


def world(*documents):
    player = Player([gpus.device_class("gpu"), *documents])
    player.settle()
    return player


def placed(player):
    """How many pods of each group are on nodes."""
    return Counter(name.rsplit("-", 1)[0] for name, node in player.node_of_pods().items() if node)


def add(player, *documents):
    for document in documents:
        player.put(document)
    player.settle()
    assert player.errors == []


@pytest.mark.parametrize("dra", [False, True], ids=["extended", "DRA"])
@pytest.mark.parametrize("queue", [None, "team", "other"], ids=["no queue", "same queue", "other queue"])
@pytest.mark.parametrize("number", [1, 2], ids=["pod", "group"])
def test_a_pod_group_of_kueue_is_preempted_as_a_whole(dra, queue, number):
    player = world(*hosts(2, count=2, dra=dra), flavor(), *team(), *team(name="other"), *kueue_group("g", 4, dra=dra))
    assert placed(player) == {"g": 4}
    if number == 1:
        urgent = pods("urgent", 1, priority=10, dra=dra, labels={QUEUE: queue} if queue else {})
    else:
        urgent = kueue_group("urgent", 2, priority=10, dra=dra, queue=queue or "team")
    add(player, *urgent)
    assert placed(player) == {"urgent": number}


@pytest.mark.parametrize(("least", "left"), [(4, 0), (2, 3)], ids=["all pods", "elastic"])
@pytest.mark.parametrize("way", ["PodGroup", "Job"])
def test_a_gang_of_kai_keeps_its_minimum_or_goes_as_a_whole(way, least, left):
    labels = {"kai.scheduler/queue": "team"}
    if way == "PodGroup":
        group = kai_group("g", minMember=least, queue="team")
        mine = pods("g", 4, labels=labels, annotations={"pod-group-name": "g"})
    else:
        group = job("g", {"kai.scheduler/batch-min-member": str(least)}, {"labels": labels}, parallelism=4)
        mine = pods("g", 4, labels=labels, ownerReferences=[JOB])
    player = world(*hosts(2, count=2), *kai_queue())
    player.scheduler.put(*group, player.now)
    add(player, *mine)
    assert placed(player) == {"g": 4}
    add(player, *pods("urgent", 1, priority=200, labels=labels))
    assert placed(player) == Counter(g=left, urgent=1)


def random_world(seed):
    """Groups and pods of random sizes and priorities in two queues and in none, in random order, on full nodes."""
    chance = Random(seed)
    dra = chance.random() < 0.5
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": chance.choice(["Never", "Any"])}
    queues = [
        document
        for name in ("team", "other")
        for document in team(chance.randint(2, 6), name, cohort="all", preemption=preemption)
    ]
    nodes = [*hosts(chance.randint(1, 3), count=chance.randint(2, 4), dra=dra), flavor(), *queues]
    units = []
    for index in range(chance.randint(4, 9)):
        priority, queue = chance.choice([0, 0, 5, 10]), chance.choice(["team", "other"])
        if chance.random() < 0.6:
            units.append(list(kueue_group(f"g{index}", chance.randint(2, 4), queue=queue, priority=priority, dra=dra)))
        else:
            labels = {QUEUE: queue} if chance.random() < 0.5 else {}
            units.append(list(pods(f"s{index}", 1, priority=priority, dra=dra, labels=labels)))
    return nodes, units


@pytest.mark.parametrize("seed", range(FIRST, FIRST + WORLDS))
def test_no_pod_group_of_kueue_is_torn(seed):
    nodes, units = random_world(seed)
    player = Player([gpus.device_class("gpu"), *nodes], recreate=True)
    sizes = {}
    for unit in units:
        mine = [document for document in unit if document["kind"] == "Pod"]
        sizes[mine[0]["metadata"]["name"].rsplit("-", 1)[0]] = len(mine)
        # Three parties may go on to remove each other; groups have to be whole in between too.
        with suppress(Endless):
            add(player, *unit)
        torn = {name: found for name, found in placed(player).items() if found != sizes[name]}
        assert not torn, f"of {sizes} {torn} are left, evicted were {player.evicted}"


def test_pods_that_replace_an_evicted_gang_start_together_while_the_old_ones_still_end():
    """A Job creates its pods anew as soon as the old ones are being deleted."""
    group = {"schedulingGroup": {"podGroupName": "g"}}
    old = list(pods("old", 4, **group))
    player = Player([*hosts(1, count=6), objects.pod_group("g", minCount=4), *old], linger=names(old))
    player.settle()
    assert placed(player) == {"old": 4}
    for name in names(old):
        gone = player.pods()[name]
        player.put({**gone, "metadata": {**gone["metadata"], "deletionTimestamp": text_of(player.now)}})
    add(player, *pods("new", 4, **group))
    assert placed(player) == {"old": 4}, "there is room for two"
    for name in names(old):
        player.delete_pod(name)
    player.settle()
    assert placed(player) == {"new": 4}


def names(documents):
    return [document["metadata"]["name"] for document in documents]


def test_pods_that_replace_an_evicted_gang_may_go_to_another_domain():
    spec = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    group = {"schedulingGroup": {"podGroupName": "g"}}
    old = list(pods("old", 2, **group))
    player = Player([*hosts(1, count=2), objects.pod_group("g", minCount=2, **spec), *old])
    player.settle()
    add(player, *hosts(1, rack="r1", count=2))
    for name in names(old):
        gone = player.pods()[name]
        player.put({**gone, "metadata": {**gone["metadata"], "deletionTimestamp": text_of(player.now)}})
    add(player, *pods("new", 2, **group))
    assert {node for name, node in player.node_of_pods().items() if name.startswith("new")} == {"r1-h0"}
