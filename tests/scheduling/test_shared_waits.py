"""Pods that wait together share what was found out for one of them, as long as it holds for all of them."""

from dray.scheduling.core.eviction_history import LIMIT
from dray.testing import objects
from tests.scheduling.core import Core, bound, placed, pod, victims
from tests.scheduling.models import pod as read
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_vectors_kai import cluster, labelled, names, submit, two_teams

NOON = 1767268800.0


def test_one_of_equal_pods_reclaims_once_another_queue_takes_more():
    """Both wait for two GPUs on one node, in vain while queue `b` stays within its share."""
    core = cluster(queue("a", "dept", quota=2), queue("b", "dept", quota=2), gpu_count=4, nodes=2)
    for number in range(2):
        submit(core, "b", f"b{number}", nodeSelector={"kubernetes.io/hostname": f"n{number}"})
    core.settle()
    submit(core, "a", "a0", "a1", number=2)
    assert victims(core.settle()) == []
    submit(core, "b", "b2", "b3")
    actions = core.settle()
    assert len(victims(actions)) == 1
    assert bound(actions).keys() >= {"a0"}


def test_a_preemption_delay_concerns_no_other_pod():
    core = two_teams()
    core.now = NOON
    submit(core, "b", *names("b", 8))
    core.settle()
    for name, labels in (("patient", {"kai.scheduler/preemption-delay": "10m"}), ("other", {})):
        made = labelled(pod(name, claims=[f"c-{name}"]), "a", **labels)
        made["metadata"]["creationTimestamp"] = "2026-01-01T12:00:00Z"
        core.put(objects.claim(f"c-{name}"), made)
        actions = core.later(60)
        assert len(victims(actions)) == (name == "other")
        for action in actions:
            core.do(action)


def test_pods_that_are_spared_from_one_pod_are_evicted_for_another():
    core = Core(objects.node("n", cpu="1"), placed("victim", "n", cpu="1"))
    for _ in range(LIMIT):
        core.state.evictions.note(read("often"), [read("victim")], core.now)
        core.state.evictions.note(read("victim"), [read("often")], core.now)
    core.put(pod("often", cpu="1", value=10))
    assert victims(core.settle()) == []
    core.put(pod("other", cpu="1", value=10))
    assert victims(core.settle()) == ["victim"]
