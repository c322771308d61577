"""Pods that wait together share what was found out for one of them, as long as it holds for all of them."""

from dray.scheduling.core.eviction_history import LIMIT
from dray.testing import objects
from tests.scheduling.core import Core, bound, placed, pod, victims
from tests.scheduling.models import pod as read
from tests.scheduling.test_queues import cluster_queue, flavor, local_queue, nominal, queued
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


def test_a_pod_that_lacks_quota_because_it_is_not_preemptible_does_not_hold_up_another():
    """The limit of the queue is two, its quota one, which the pod `kept` uses."""
    core = cluster(queue("a", "dept", quota=1, limit=2))
    stays = {"kai.scheduler/preemptibility": "non-preemptible"}
    for name, labels in (("kept", stays), ("running", {}), ("first", stays), ("second", {})):
        core.put(objects.claim(f"c-{name}"), labelled(pod(name, claims=[f"c-{name}"]), "a", **labels))
        core.settle()
    core.remove_with_claims("running")
    assert list(bound(core.settle())) == ["second"]


def test_a_pod_that_lacks_quota_of_its_flavor_does_not_hold_up_a_pod_that_tolerates_another():
    tainted = flavor("tainted", side="right")
    tainted["spec"]["nodeTaints"] = [{"key": "k", "effect": "NoSchedule"}]
    core = Core(flavor("left", side="left"), tainted, local_queue("team", "team"))
    core.put(cluster_queue("team", *((name, {"cpu": nominal(1)}) for name in ("left", "tainted"))))
    core.put(*(objects.node(side, labels={"side": side}) for side in ("left", "right")))
    tolerant = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    core.put(queued("a", "team", cpu="1"))
    core.settle()
    core.put(queued("b", "team", cpu="1", **tolerant))
    core.settle()
    core.put(queued("first", "team", cpu="1"))
    core.put(queued("second", "team", cpu="1", **tolerant))
    assert bound(core.settle()) == {}
    core.remove_with_claims("b")
    assert bound(core.settle()) == {"second": "right"}


def test_a_pod_that_lacks_quota_of_its_flavor_does_not_hold_up_a_pod_of_another_flavor():
    core = Core(flavor("left", side="left"), flavor("right", side="right"), local_queue("team", "team"))
    core.put(cluster_queue("team", *((side, {"cpu": nominal(1)}) for side in ("left", "right"))))
    for side in ("left", "right"):
        core.put(objects.node(side, labels={"side": side}))
        core.put(queued(f"{side}-running", "team", cpu="1", nodeSelector={"side": side}))
    assert len(bound(core.settle())) == 2
    for side in ("left", "right"):
        core.put(queued(f"{side}-waiting", "team", cpu="1", nodeSelector={"side": side}))
    assert bound(core.settle()) == {}
    core.remove_with_claims("right-running")
    assert bound(core.settle()) == {"right-waiting": "right"}


def test_a_pod_reclaims_although_a_pod_that_asks_for_the_same_elsewhere_cannot():
    """Queue `b` gets more than its share when its last pod starts. Its pod on the first node cannot be preempted."""
    core = cluster(queue("a", "dept", quota=3), queue("b", "dept", quota=3), gpu_count=6, nodes=3)
    stays = {"kai.scheduler/preemptibility": "non-preemptible"}
    for name, node, labels in (("b0", "n0", stays), ("b1", "n1", {}), ("b2", "n2", {})):
        made = pod(name, claims=[f"c-{name}"], nodeSelector=on(node))
        core.put(objects.claim(f"c-{name}"), labelled(made, "b", **labels))
    assert len(bound(core.settle())) == 3
    for name, node in (("a0", "n0"), ("a1", "n1")):
        submit(core, "a", name, number=2, nodeSelector=on(node))
    assert victims(core.settle()) == []
    submit(core, "b", "b3", nodeSelector=on("n2"))
    assert victims(core.settle()) == ["b1"]


def on(node):
    return {"kubernetes.io/hostname": node}
