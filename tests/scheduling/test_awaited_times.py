"""Pods that lack quota now, and may evict others for it after a time, are tried again at that time."""

import pytest

from dray.scheduling.core.eviction_history import LIMIT, WINDOW
from dray.testing import objects
from tests.scheduling.core import pod, victims
from tests.scheduling.models import pod as read
from tests.scheduling.test_kai_groups import kai_group, kai_member, tell
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_shared_waits import NOON
from tests.scheduling.test_vectors_kai import cluster, labelled, submit

CREATED = "2026-01-01T12:00:00Z"


def full_queue(**spec):
    """A queue whose limit is used by two pods of low priority, which started at noon."""
    team = queue("a", "dept", quota=2, limit=2)
    team["spec"] |= spec
    core = cluster(team)
    core.now = NOON
    submit(core, "a", "low0", "low1", created=CREATED)
    core.settle(1.0)
    return core


def test_a_pod_evicts_for_the_limit_of_its_queue_after_the_minimum_runtime():
    core = full_queue(preemptMinRuntime="2m")
    submit(core, "a", "high", value=50)
    assert victims(core.later(60)) == []
    assert len(victims(core.later(90))) == 1


def test_a_group_evicts_for_the_limit_of_its_queue_after_the_minimum_runtime():
    core = full_queue(preemptMinRuntime="2m")
    tell(core, kai_group("g", minMember=2, queue="a"))
    for number in range(2):
        core.put(*kai_member(f"g-{number}", "g", value=50))
    assert victims(core.later(60)) == []
    assert len(victims(core.later(90))) == 2


def test_a_pod_evicts_for_the_limit_of_its_queue_after_its_preemption_delay():
    core = full_queue()
    made = labelled(pod("high", claims=["c-high"], value=50), "a", **{"kai.scheduler/preemption-delay": "2m"})
    made["metadata"]["creationTimestamp"] = CREATED
    core.put(objects.claim("c-high"), made)
    assert victims(core.later(60)) == []
    assert len(victims(core.later(90))) == 1


@pytest.mark.parametrize("limit", [1, -1], ids=["for quota", "for a place"])
def test_a_pod_that_was_spared_is_evicted_once_its_evictions_are_forgotten(limit):
    core = cluster(queue("a", "dept", quota=1, limit=limit), gpu_count=1)
    submit(core, "a", "low")
    core.settle(1.0)
    for _ in range(LIMIT):
        core.state.evictions.note(read("high"), [read("low")], core.now)
        core.state.evictions.note(read("low"), [read("high")], core.now)
    submit(core, "a", "high", value=50)
    assert victims(core.later(WINDOW - 100)) == []
    assert victims(core.later(100)) == ["low"]
