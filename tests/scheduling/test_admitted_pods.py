"""Pods on nodes are charged to the queue that admitted them, whatever is said of them afterwards."""

import json

import pytest

from dray.api import pod_queues
from dray.scheduling.groups import coscheduling, kai
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue import kinds as kueue
from dray.testing import objects
from tests.scheduling import test_vectors_kai as kai_world
from tests.scheduling.core import Core, bound
from tests.scheduling.test_kai_groups import kai_group, kai_member
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, local_queue, nominal, training, world
from tests.scheduling.test_share_tree import queue


def say(core, name, labels, annotations=None):
    """Replaces the labels and annotations of a pod, as a user may do; keeps the admission record."""
    known = core.get("Pod", name)
    kept = {key: value for key, value in known["metadata"].get("annotations", {}).items() if key == pod_queues.RECORD}
    metadata = {**known["metadata"], "labels": labels, "annotations": {**kept, **(annotations or {})}}
    core.put({**known, "metadata": metadata})


def full():
    """A queue of two whose pods run; two more would like to."""
    core = world(number=2)
    training(core, "a", "b")
    assert sorted(bound(core.settle())) == ["a", "b"]
    return core


def recorded(core):
    """Adds the admission record to bound pods, as the binding does on the server."""
    for (kind, _), document in list(core.objects.items()):
        if kind == "Pod" and document["spec"].get("nodeName"):
            charged = core.state.queues.charged(core.state.placed(document["metadata"]["uid"]))
            annotations = {**document["metadata"].get("annotations", {})}
            annotations[pod_queues.RECORD] = pod_queues.record(document, charged)
            core.put({**document, "metadata": {**document["metadata"], "annotations": annotations}})
    return core


def restarted(core):
    """Another scheduler, which hears of pods first and of queues last."""
    fresh = Core()
    order = ("Node", "ResourceSlice", "ResourceClaim", "Pod")
    ordered = sorted(core.objects.items(), key=lambda item: order.index(item[0][0]) if item[0][0] in order else 9)
    for (kind, _), document in ordered:
        fresh.objects[(kind, document["metadata"]["name"])] = document
        fresh.scheduler.put(kind, document, fresh.now)
    return fresh


def test_the_words_are_those_that_the_front_ends_read():
    assert {kueue.QUEUE_LABEL, kueue.POD_GROUP_LABEL, kai_queue.QUEUE_LABEL, coscheduling.LABEL} < set(
        pod_queues.LABELS
    )
    assert kai_queue.PREEMPTIBILITY in pod_queues.LABELS
    assert kai.ANNOTATION in pod_queues.ANNOTATIONS


@pytest.mark.parametrize("labels", [{}, {QUEUE: "other"}, {QUEUE: "missing"}, {"kai.scheduler/queue": "x"}])
def test_a_pod_that_leaves_its_queue_by_a_label_does_not_free_quota(labels):
    core = full()
    core.put(cluster_queue("other", ("any", {GPU: nominal(8)})), local_queue("other", "other"))
    say(core, "a", labels)
    training(core, "c")
    assert bound(core.settle()) == {}
    core.remove_with_claims("a")
    assert bound(core.settle()) == {"c": "n"}


def test_a_pod_that_waits_may_change_its_queue():
    core = full()
    core.put(cluster_queue("other", ("any", {GPU: nominal(8)})), local_queue("other", "other"))
    training(core, "c")
    assert bound(core.settle()) == {}
    say(core, "c", {QUEUE: "other"})
    assert bound(core.settle()) == {"c": "n"}


def test_a_pod_on_a_node_that_comes_to_a_queue_is_charged():
    core = world(number=1)
    core.put(objects.claim("c-a"), {**kai_world.pod("a", claims=["c-a"])})
    core.settle()
    say(core, "a", {QUEUE: "team"})
    training(core, "b")
    assert bound(core.settle()) == {}


def test_a_local_queue_that_leads_elsewhere_or_goes_does_not_free_quota():
    core = full()
    core.put(cluster_queue("other", ("any", {GPU: nominal(8)})), local_queue("again", "team"))
    core.put(local_queue("team", "other"))
    training(core, "c")
    say(core, "c", {QUEUE: "again"})
    assert bound(core.settle()) == {}
    core.remove("LocalQueue", "team")
    assert bound(core.settle()) == {}
    core.remove_with_claims("b")
    assert bound(core.settle()) == {"c": "n"}


@pytest.mark.parametrize("labels", [{}, {QUEUE: "other"}])
def test_a_scheduler_that_is_started_later_charges_the_queue_that_is_recorded(labels):
    core = recorded(full())
    core.put(cluster_queue("other", ("any", {GPU: nominal(8)})), local_queue("other", "other"))
    say(core, "a", labels)
    fresh = restarted(core)
    training(fresh, "c")
    assert bound(fresh.settle()) == {}
    fresh.remove_with_claims("a")
    assert bound(fresh.settle()) == {"c": "n"}


def test_a_local_queue_that_went_before_the_restart_does_not_free_quota():
    core = recorded(full())
    core.put(local_queue("again", "team"))
    core.remove("LocalQueue", "team")
    fresh = restarted(core)
    training(fresh, "c")
    say(fresh, "c", {QUEUE: "again"})
    assert bound(fresh.settle()) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 50_000,
        "7",
        json.dumps({"uid": "somebody else", "queues": {QUEUE: "team"}, "labels": {QUEUE: "team"}}),
        json.dumps({"queues": {QUEUE: "team"}}),
    ],
)
def test_a_record_that_was_not_written_for_the_pod_counts_for_nothing(text):
    core = world(number=1)
    made = kai_world.pod("stranger", claims=["c-stranger"])
    made["metadata"]["annotations"] = {pod_queues.RECORD: text}
    made["spec"]["nodeName"] = "n"
    core.put(objects.claim("c-stranger"), made)
    training(core, "a")
    assert bound(core.settle()) == {"a": "n"}


def test_a_record_of_wrong_types_keeps_nobody_from_anything():
    core = world(number=1)
    made = kai_world.pod("p")
    made["metadata"]["uid"] = "u"
    content = {"uid": "u", "queues": {QUEUE: 3, "x": {}}, "labels": [1], "annotations": {"pod-group-name": None}}
    made["metadata"]["annotations"] = {pod_queues.RECORD: json.dumps(content)}
    made["spec"]["nodeName"] = "n"
    core.put(made)
    training(core, "a")
    assert bound(core.settle()) == {"a": "n"}


def test_a_pod_that_leaves_its_queue_of_kai_by_a_label_does_not_free_its_limit():
    core = kai_world.cluster(queue("a", "dept", quota=2, limit=2))
    kai_world.submit(core, "a", "p", "q", "r")
    first = bound(core.settle())
    assert len(first) == 2
    for name in first:
        say(core, name, {})
    assert bound(core.settle()) == {}
    assert kai_world.held(core, "a") == 2


def grouped():
    """A group of KAI with two pods, in a queue that may have two GPUs."""
    core = kai_world.cluster(queue("a", "dept", quota=2, limit=2), queue("b", "dept", quota=4))
    kind, group = kai_group("g", minMember=2, queue="a")
    core.scheduler.put(kind, group, core.now)
    core.put(*kai_member("w0", "g"), *kai_member("w1", "g"))
    assert sorted(bound(core.settle())) == ["w0", "w1"]
    return core


def test_a_group_of_kai_that_changes_its_queue_does_not_free_the_limit_of_the_first():
    core = grouped()
    core.scheduler.put(*kai_group("g", minMember=2, queue="b"), core.now)
    kai_world.submit(core, "a", "p")
    assert bound(core.settle()) == {}
    core.scheduler.remove(*kai_group("g", minMember=2, queue="b"), core.now)
    assert bound(core.settle()) == {}
    assert kai_world.held(core, "a") == 2


def test_a_pod_that_leaves_its_group_of_kai_does_not_free_the_limit():
    core = grouped()
    say(core, "w0", {}, {})
    kai_world.submit(core, "a", "p")
    assert bound(core.settle()) == {}
    assert kai_world.held(core, "a") == 2
