"""Elastic groups of KAI: only the minimum is asked for; pods beyond it are placed last and evicted first."""

import pytest

from dray.scheduling.quota.kai.policy import KaiQueues
from tests.scheduling.core import bound, victims
from tests.scheduling.test_kai_groups import kai_group, kai_member, tell
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_vectors_kai import cluster, kai_gang, names, submit


def kai_pods(core, group, number, part="", created="2026-01-01T00:00:00Z"):
    for n in range(number):
        claim, made = kai_member(f"{group}{part}-{n}", group, part)
        made["metadata"]["creationTimestamp"] = created
        core.put(claim, made)


def elastic(core, name, team, number, least, created):
    kind, group = kai_group(name, queue=team, minMember=least)
    group["metadata"]["creationTimestamp"] = created
    tell(core, (kind, group))
    kai_pods(core, name, number, created=created)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_group_reclaims_quota_for_its_minimum_only(number):
    core = cluster(queue("a", "dept", quota=2, weight=0), queue("b", "dept", quota=0, weight=0), gpu_count=2)
    submit(core, "b", "b0", "b1")
    assert len(bound(core.settle())) == 2
    kai_gang(core, "g", "a", number, least=2)
    actions = core.settle()
    assert victims(actions) == ["b0", "b1"]
    assert len(bound(actions)) == 2


def test_sub_groups_reclaim_quota_for_their_minimum_only():
    core = cluster(queue("a", "dept", quota=2, weight=0), queue("b", "dept", quota=0, weight=0), gpu_count=2)
    submit(core, "b", "b0", "b1")
    core.settle()
    tell(core, kai_group("g", queue="a", subGroups=[{"name": part, "minMember": 1} for part in "xy"]))
    kai_pods(core, "g", 2, "x")
    kai_pods(core, "g", 2, "y")
    actions = core.settle()
    assert victims(actions) == ["b0", "b1"]
    assert sorted({name[:2] for name in bound(actions)}) == ["gx", "gy"]


def test_the_minimum_of_a_group_within_quota_is_not_reclaimed_with_its_surplus():
    core = cluster(queue("a", "dept", quota=2), queue("b", "dept", quota=2), gpu_count=3)
    kai_gang(core, "g", "b", 3, least=2)
    assert len(bound(core.settle())) == 3
    submit(core, "a", "a0", number=2)
    assert victims(core.settle()) == []


def test_the_minimum_of_a_group_beyond_quota_is_reclaimed_with_its_surplus():
    core = cluster(queue("a", "dept", quota=3, weight=0), queue("b", "dept", quota=1, weight=0), gpu_count=3)
    kai_gang(core, "g", "b", 3, least=2)
    assert len(bound(core.settle())) == 3
    submit(core, "a", "a0", number=2)
    actions = core.settle()
    assert victims(actions) == ["g-0", "g-1", "g-2"]
    assert list(bound(actions)) == ["a0"]


def test_of_two_groups_each_loses_its_surplus_before_one_loses_its_minimum():
    core = cluster(queue("a", "dept", quota=2), queue("b", "dept", quota=0, weight=0), gpu_count=4)
    elastic(core, "old", "b", 2, 1, "2026-01-01T00:00:00Z")
    elastic(core, "new", "b", 2, 1, "2026-01-02T00:00:00Z")
    assert len(bound(core.settle())) == 4
    submit(core, "a", "a0", number=2)
    assert [name.split("-")[0] for name in victims(core.settle())] == ["new", "old"]


def test_surplus_of_an_older_group_waits_for_the_minimum_of_the_next():
    core = cluster(queue("a", "dept", quota=4), gpu_count=4)
    elastic(core, "old", "a", 4, 2, "2026-01-01T00:00:00Z")
    elastic(core, "new", "a", 4, 2, "2026-01-02T00:00:00Z")
    placed = list(bound(core.settle()))
    assert sorted(name.split("-")[0] for name in placed) == ["new", "new", "old", "old"]


def test_surplus_of_sub_groups_waits_for_the_minimum_of_the_next_group():
    core = cluster(queue("a", "dept", quota=4), gpu_count=4)
    for name, created in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-01-02T00:00:00Z")):
        kind, group = kai_group(name, queue="a", subGroups=[{"name": part, "minMember": 1} for part in "xy"])
        group["metadata"]["creationTimestamp"] = created
        tell(core, (kind, group))
        for part in "xy":
            kai_pods(core, name, 2, part, created=created)
    placed = list(bound(core.settle()))
    assert sorted(name.split("-")[0] for name in placed) == ["newx", "newy", "oldx", "oldy"]


def test_surplus_goes_to_the_sub_group_that_has_the_fewest_pods_for_its_minimum():
    core = cluster(queue("a", "dept", quota=6), gpu_count=6)
    tell(core, kai_group("g", queue="a", subGroups=[{"name": "x", "minMember": 2}, {"name": "y", "minMember": 1}]))
    kai_pods(core, "g", 5, "x")
    kai_pods(core, "g", 5, "y")
    placed = bound(core.settle())
    # x: 2, 3, 4 of 2; y: 1, 2 of 1.
    assert sorted(name[:2] for name in placed) == ["gx"] * 4 + ["gy"] * 2


def test_a_group_at_its_minimum_gets_a_pod_before_one_beyond_it():
    core = cluster(queue("a", "dept", quota=5), gpu_count=5)
    elastic(core, "old", "a", 4, 1, "2026-01-01T00:00:00Z")
    elastic(core, "new", "a", 4, 1, "2026-01-02T00:00:00Z")
    placed = list(bound(core.settle()))
    assert sorted(name.split("-")[0] for name in placed) == ["new"] * 2 + ["old"] * 3


def test_all_pods_of_a_group_are_placed_where_there_is_room():
    core = cluster(queue("a", "dept", quota=8), gpu_count=8)
    kai_gang(core, "g", "a", 8, least=3)
    assert len(bound(core.later())) == 8, "without a delay for the pods beyond the minimum"


def test_victims_come_evenly_from_queues_that_are_equally_over():
    core = cluster(
        queue("a", "dept", quota=4, weight=0),
        queue("b", "dept", quota=0, created="2026-01-01T00:00:00Z"),
        queue("c", "dept", quota=0, created="2026-01-02T00:00:00Z"),
    )
    submit(core, "b", *names("b", 4))
    submit(core, "c", *names("c", 4))
    assert len(bound(core.settle())) == 8
    kai_gang(core, "g", "a", 4)
    gone = [name[0] for name in victims(core.settle())]
    assert sorted(gone) == ["b", "b", "c", "c"]


def test_only_the_minimum_of_a_group_counts_for_the_turn_of_its_queue():
    older = queue("a", "dept", quota=2, weight=0, created="2026-01-01T00:00:00Z")
    core = cluster(older, queue("b", "dept", quota=1, weight=0, created="2026-01-02T00:00:00Z"), gpu_count=2)
    kai_gang(core, "g", "a", 4, least=2)
    submit(core, "b", "b0", "b1", number=2)
    assert sorted(bound(core.settle())) == ["g-0", "g-1"], "b0 is beyond the quota of its queue"


def test_a_group_is_entitled_to_reclaim_for_its_minimum():
    core = cluster(queue("a", "dept", quota=2, weight=0), queue("b", "dept", quota=0, weight=0), gpu_count=0)
    kai_gang(core, "g", "a", 4, least=2)
    core.settle()
    waiting = next(iter(core.scheduler.queue.all()))
    assert core.state.queues.system(KaiQueues).order.is_entitled(waiting.pod)
