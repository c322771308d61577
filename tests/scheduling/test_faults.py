"""Objects that nobody thought of: what they cause concerns them, and whoever else is there goes on."""

from contextlib import suppress
from itertools import pairwise

import pytest

from dray.allocation.node_selectors import NodeSelectorError
from dray.scheduling.attempts.queueing_hints import QueueingHints
from dray.scheduling.explain.explainer import Explainer
from dray.scheduling.plugin import SKIP, Depends, Plugin
from dray.scheduling.quota.kueue.waiting import KueueWaiting
from dray.scheduling.quota.turns import Turns
from dray.scheduling.waiting.queued_pods import SubQueue
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, one_gpu_node, placed, pod, refused
from tests.scheduling.test_queues import training, two_teams

HUGE = "1e400"
DIGITS = "9" * 4301


class Failing(Plugin):
    """Raises in every attempt for a pod of that name."""

    def __init__(self, name):
        self.pod = name

    def prefilter(self, cycle):
        if cycle.pod.key[1] == self.pod:
            raise ZeroDivisionError("one of a kind")
        return SKIP


class FailingOnDevices(Plugin):
    """Raises where devices of node bad are looked for."""

    depends_on = Depends.DEVICES
    lazy = True

    def filter(self, cycle, node):
        return 1 / 0 if node.name == "bad" else None


# Boundaries


def test_an_error_in_an_attempt_concerns_one_pod():
    core = one_gpu_node(pod("bad", value=5), pod("good"), plugins=(Failing("bad"),))
    actions = core.actions()
    assert bound(actions) == {"good": "n"}
    (refusal,) = [each for each in actions if each.pod.key[1] == "bad"]
    assert refusal.reason == "SchedulerError"
    assert "ZeroDivisionError: one of a kind" in refusal.message
    assert core.scheduler.queue.get(refusal.pod.uid).subqueue is SubQueue.UNSCHEDULABLE


@pytest.mark.parametrize(("part", "method"), [(Turns, "choose"), (KueueWaiting, "sample"), (QueueingHints, "_move")])
def test_an_error_in_what_concerns_all_pods_stops_none(part, method, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("whoever it was")

    core = two_teams()
    monkeypatch.setattr(part, method, fail)
    training(core, "a0", "a1", queue="a")
    training(core, "b0", queue="b")
    core.put(pod("other"))
    assert sorted(bound(core.settle())) == ["a0", "a1", "b0", "other"]


def test_after_such_an_error_the_pod_is_tried_again_less_and_less_often():
    core = one_gpu_node(pod("bad", resourceClaims=[None]))
    reports = []
    core.state.report = lambda what, error: reports.append((core.now, what))
    core.later(60)
    times = [when for when, _ in reports]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert 5 < len(times) < 20
    assert {what for _, what in reports} == {"scheduling pod default/bad"}


def test_the_pod_is_placed_once_the_error_is_over():
    failing = Failing("bad")
    core = one_gpu_node(pod("bad"), plugins=(failing,))
    core.actions()
    failing.pod = ""
    assert bound(core.later(20)) == {"bad": "n"}


def test_a_node_that_cannot_be_judged_does_not_keep_pods_from_the_others():
    core = Core(objects.node("bad", cpu="64"), objects.node("good"), pod("p"))
    core.state.nodes["bad"].allocatable = {"cpu": None}
    assert bound(core.actions()) == {"p": "good"}


def test_where_only_such_nodes_are_left_the_pod_is_told_of_the_error():
    core = Core(objects.node("bad"), objects.node("full", cpu="1"), pod("p", cpu="2"))
    core.state.nodes["bad"].allocatable = {"cpu": "many"}
    (action,) = core.actions()
    assert action.reason == "SchedulerError"
    assert "1 Insufficient cpu" in action.message
    assert "1 node(s) on which the scheduler failed (TypeError" in action.message


def test_an_error_while_devices_are_looked_for_is_about_one_node():
    nodes = [objects.node("bad", cpu="64"), objects.node("good"), gpus.slice_of("good"), gpus.slice_of("bad")]
    core = Core(*nodes, objects.claim("c"), pod("p", claims=["c"]), plugins=(FailingOnDevices(),))
    assert bound(core.actions()) == {"p": "good"}


def test_an_error_while_room_is_made_leaves_everything_as_it_was():
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    core = Core(objects.node("n", cpu="2"), placed("old", "n", cpu="2"), pod("new", cpu="2", value=5), budget)
    assert "Insufficient cpu" in refused(core.actions())["new"]
    assert core.state.nodes["n"].requested["cpu"] == 2000


def test_whoever_asks_why_such_a_pod_waits_gets_an_answer():
    core = one_gpu_node(pod("p", resourceClaims=[None]))
    waiting = core.scheduler.queue.get(core.get("Pod", "p")["metadata"]["uid"])
    assert "AttributeError" in Explainer(core.scheduler).explain(waiting.pod, core.now).problem


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("ResourceSlice", {**gpus.slice_of("n"), "spec": {"nodeName": "n", "pool": None}}),
        ("ResourceSlice", {**gpus.slice_of("n"), "spec": {"driver": "d", "pool": {}, "devices": [{}]}}),
        ("ResourceClaim", {**objects.claim("c"), "status": {"allocation": {"devices": {"results": [{}]}}}}),
        ("ResourceClaim", {**objects.claim("c"), "status": {"reservedFor": [None]}}),
        ("DeviceTaintRule", {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": {}}),
        ("Pod", {**gpus.pod("q"), "spec": {"nodeName": "n", "containers": None, "priority": "high"}}),
        ("Node", {**objects.node("m"), "spec": None, "status": {"allocatable": {"cpu": []}, "images": [1]}}),
    ],
)
def test_what_cannot_be_read_spoils_nothing_and_can_be_removed(kind, document):
    core = one_gpu_node()
    name = document["metadata"]["name"]
    with suppress(Exception):
        core.put(document)
    core.put(gpus.slice_of("n"), objects.claim("mine"), pod("p", claims=["mine"]))
    assert bound(core.actions()) == {"p": "n"}
    core.remove(kind, name)
    core.put(objects.node("n"), gpus.slice_of("n", 2), objects.claim("yours"), pod("o", claims=["yours"]))
    assert bound(core.later()) == {"o": "n"}


# Large numbers


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "main", "resources": {"requests": {"cpu": HUGE}}}]},
        {"overhead": {"cpu": HUGE, "memory": HUGE}},
        {"resources": {"requests": {"memory": HUGE}}},
    ],
)
def test_a_pod_on_a_node_may_claim_to_take_any_amount(spec):
    core = Core(objects.node("n"), objects.node("m"))
    core.put(placed("large", "n", **spec))
    core.put(gpus.pod("p", requests={"memory": "1Gi"}, limits={"memory": "1Gi"}), gpus.pod("o", cpu="1"))
    assert set(bound(core.actions())) >= {"p", "o"}


def test_a_pod_that_was_granted_any_amount_is_no_obstacle():
    large = placed("large", "n")
    large["status"] = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": HUGE}}}]}
    core = Core(
        objects.node("n"), objects.node("m"), large, gpus.pod("p", requests={"memory": "1Gi"}, limits={"memory": "1Gi"})
    )
    assert bound(core.actions()) == {"p": "m"}


def test_a_node_may_have_any_amount_of_anything():
    images = [{"names": ["busybox:latest"], "sizeBytes": 2**63 - 1}]
    status = {"allocatable": {"cpu": HUGE, "memory": "-1", "pods": HUGE}, "images": images}
    core = Core({**objects.node("n"), "status": status}, pod("p", cpu="1"))
    assert bound(core.actions()) == {"p": "n"}


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_numbers_of_thousands_of_digits_match_nothing(operator):
    load = {"key": "example.com/load", "effect": "NoSchedule"}
    core = Core(objects.node("n", taints=[{**load, "value": "5"}]))
    core.put(pod("p", tolerations=[{"key": load["key"], "operator": operator, "value": DIGITS}]))
    assert "untolerated taint" in refused(core.actions())["p"]


@pytest.mark.parametrize("value", ["abc", DIGITS, "1_000", ""])
@pytest.mark.parametrize("preferred", [False, True])
def test_a_node_affinity_with_something_else_than_a_number_matches_nothing(value, preferred):
    term = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": [value]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    liked = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2**70, "preference": term}]}
    core = Core(objects.node("n", labels={"size": "5"}))
    core.put(pod("p", affinity={"nodeAffinity": liked if preferred else required}))
    actions = core.actions()
    assert bound(actions) == ({"p": "n"} if preferred else {})


def test_a_slice_whose_node_selector_makes_no_sense_is_left_out():
    odd = objects.resource_slice("odd", gpus.gpu("g"))
    del odd["spec"]["allNodes"]
    expression = {"key": "num", "operator": "Gt", "values": ["abc"]}
    odd["spec"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    either = objects.first_available("gpu", objects.subrequest("a"), objects.subrequest("b"))
    core = one_gpu_node(objects.claim("c", either), pod("p", claims=["c"]), pod("other"))
    with pytest.raises(NodeSelectorError, match="Gt needs exactly one whole number"):
        core.put(odd)
    assert bound(core.actions()) == {"p": "n", "other": "n"}


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "garbage"])
def test_a_claim_may_have_been_allocated_at_any_time(when):
    result = {"request": "gpu", "driver": objects.DRIVER, "pool": "n", "device": "gpu-0", "bindingConditions": ["ok"]}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": when}
    core = one_gpu_node({**objects.claim("c"), "status": {"allocation": allocation}}, pod("p", claims=["c"]))
    assert len(core.actions()) == 1


@pytest.mark.parametrize("number", [2**70, -(2**70)])
def test_priorities_weights_and_skews_may_be_any_number(number):
    spread = {"maxSkew": number, "minDomains": number, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    term = {"topologyKey": "zone", "labelSelector": {}}
    preferred = [{"weight": number, "podAffinityTerm": term}]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    core = Core(objects.node("n", labels={"zone": "a"}), objects.node("m", labels={"zone": "b"}))
    for name in ("p", "o"):
        core.put(pod(name, value=number, affinity=affinity, topologySpreadConstraints=[spread]))
    assert set(bound(core.actions())) == {"p", "o"}
