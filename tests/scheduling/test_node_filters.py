from __future__ import annotations

from typing import Any

import pytest

from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.model.messages import reason_text
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Requirements
from dray.scheduling.plugins.node_affinity import NodeAffinity
from dray.scheduling.plugins.node_ports import NodePorts
from dray.scheduling.plugins.node_resources_fit import NodeResourcesFit, insufficient
from dray.scheduling.plugins.node_unschedulable import NodeUnschedulable
from dray.scheduling.plugins.taint_toleration import TaintToleration
from tests.scheduling.models import container, node, pod, reasons

STATE = State()
FILTERS = [NodeUnschedulable(), TaintToleration(STATE), NodeAffinity(), NodePorts(), NodeResourcesFit()]
FRAMEWORK = Framework(STATE, FILTERS)
UNSCHEDULABLE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
SOFT = {"key": "soft", "effect": "PreferNoSchedule"}
SLA = {"key": "sla", "value": "90", "effect": "NoExecute"}


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": rules}


def tolerating(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [toleration]}


STANDING: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "plain": ({}, {}, None),
    "cordoned": ({}, {"unschedulable": True}, UNSCHEDULABLE),
    "cordon first": ({"nodeSelector": {"x": "y"}}, {"unschedulable": True, "taints": [GPU]}, UNSCHEDULABLE),
    "cordon tolerated": (
        tolerating(key="node.kubernetes.io/unschedulable", operator="Exists"),
        {"unschedulable": True},
        None,
    ),
    "tainted": ({}, {"taints": [GPU]}, TAINTED),
    "taint before affinity": ({"nodeSelector": {"x": "y"}}, {"taints": [GPU]}, TAINTED),
    "tolerated by value": (tolerating(key="gpu", value="yes"), {"taints": [GPU]}, None),
    "tolerates another value": (tolerating(key="gpu", value="no"), {"taints": [GPU]}, TAINTED),
    "tolerates everything": (tolerating(operator="Exists"), {"taints": [GPU, SLA]}, None),
    "tolerates another effect": (
        tolerating(key="gpu", operator="Exists", effect="NoExecute"),
        {"taints": [GPU]},
        TAINTED,
    ),
    "a number above the bound": (tolerating(key="sla", operator="Gt", value="80"), {"taints": [SLA]}, None),
    "a number not below the bound": (tolerating(key="sla", operator="Lt", value="80"), {"taints": [SLA]}, TAINTED),
    "a bound that is no number": (tolerating(key="sla", operator="Gt", value="x"), {"taints": [SLA]}, TAINTED),
    "a wish is no obstacle": ({}, {"taints": [SOFT]}, None),
    "selected": ({"nodeSelector": {"a": "b"}}, {"labels": {"a": "b"}}, None),
    "not selected": ({"nodeSelector": {"a": "b"}}, {"labels": {"a": "c"}}, UNSELECTED),
    "one term of several": (
        {"affinity": required(requirement("a", "In", "x"), requirement("a", "Exists"))},
        {"labels": {"a": "b"}},
        None,
    ),
    "no terms": ({"affinity": required()}, {}, UNSELECTED),
    "an empty term": ({"affinity": required({})}, {}, UNSELECTED),
    "greater": ({"affinity": required(requirement("n", "Gt", "5"))}, {"labels": {"n": "6"}}, None),
    "no number to compare with": (
        {"affinity": required(requirement("n", "Gt", "five"))},
        {"labels": {"n": "6"}},
        UNSELECTED,
    ),
    "a bad term beside a good one": (
        {"affinity": required(requirement("n", "Gt", "five"), requirement("n", "Exists"))},
        {"labels": {"n": "6"}},
        None,
    ),
    "by name": (
        {"affinity": required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})},
        {},
        None,
    ),
}


@pytest.mark.parametrize(("spec", "there", "expected"), STANDING.values(), ids=STANDING)
def test_the_node_itself(spec: dict[str, Any], there: dict[str, Any], expected: str | None) -> None:
    assert reasons(FRAMEWORK, pod(**spec), node(**there)) == ((expected,) if expected else ())


def busy(**members: Any) -> Node:
    """Has one pod that takes 2 cpu, one device and a port."""
    made = node(cpu="4", memory="4Gi", **{"example.com/gpu": "2"}, **members)
    taken = {**container(cpu="2", **{"example.com/gpu": "1"}), "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}
    made.add(pod("there", containers=[taken]))
    return made


ROOM = {
    "fits": ({"cpu": "2"}, (), False),
    "too much": ({"cpu": "2001m"}, ("Insufficient cpu",), False),
    "more than there is": ({"cpu": "5", "memory": "4Gi"}, ("Insufficient cpu",), True),
    "in the order of Kubernetes": (
        {"example.com/gpu": "2", "example.com/nic": "1", "ephemeral-storage": "1", "memory": "5Gi", "cpu": "3"},
        (
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
            "Insufficient example.com/gpu",
            "Insufficient example.com/nic",
        ),
        True,
    ),
    "zero of what is not there": ({"example.com/nic": "0"}, (), False),
}


def short(requirements: Requirements, there: Node, **members: Any) -> tuple[list[str], bool]:
    """What there is too little of, and whether that could change when pods leave."""
    status = insufficient(requirements, there, **members)
    return ([*map(reason_text, status.reasons)], status.resolvable) if status is not None else ([], True)


@pytest.mark.parametrize(("amounts", "expected", "never"), ROOM.values(), ids=ROOM)
def test_resources(amounts: dict[str, str], expected: tuple[str, ...], never: bool) -> None:
    requirements = pod(containers=[container(**amounts)]).requirements
    assert short(requirements, busy()) == ([*expected], not never)


def test_too_many_pods() -> None:
    requirements = pod(containers=[container(cpu="3")]).requirements
    assert short(requirements, busy(pods="1")) == ([TOO_MANY_PODS, "Insufficient cpu"], True)
    assert short(pod().requirements, node(pods="0")) == ([TOO_MANY_PODS], True)


def test_what_devices_serve_is_not_asked_of_the_node() -> None:
    requirements = pod(containers=[container(**{"example.com/nic": "1"})]).requirements
    assert short(requirements, busy(), served=frozenset({"example.com/nic"})) == ([], True)


def test_what_devices_take_comes_on_top() -> None:
    requirements = pod(containers=[container(cpu="1")]).requirements
    assert short(requirements, busy(), extra={"cpu": 1000, "memory": 1}) == ([], True)
    assert short(requirements, busy(), extra={"cpu": 1001}) == (["Insufficient cpu"], True)
    assert short(requirements, busy(), extra={"cpu": 3001}) == (["Insufficient cpu"], False)
    assert short(requirements, busy(), extra={"hugepages-2Mi": 1}) == (["Insufficient hugepages-2Mi"], False)


@pytest.mark.parametrize(
    ("port", "collides"),
    [
        ({"hostPort": 80}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 81}, False),
    ],
)
def test_ports(port: dict[str, Any], collides: bool) -> None:
    asking = pod(containers=[{**container(cpu="8"), "ports": [port]}])
    assert reasons(FRAMEWORK, asking, busy()) == ((PORTS_TAKEN,) if collides else ("Insufficient cpu",))


def test_a_node_without_a_status_takes_nothing() -> None:
    assert reasons(FRAMEWORK, pod(), Node("n", 0)) == (TOO_MANY_PODS,)
