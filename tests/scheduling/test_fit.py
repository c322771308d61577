from __future__ import annotations

from typing import Any

import pytest

from dray.scheduling import fit
from dray.scheduling.model import Node
from tests.scheduling.models import container, node, pod

NOTHING: frozenset[str] = frozenset()
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
SOFT = {"key": "soft", "effect": "PreferNoSchedule"}
SLA = {"key": "sla", "value": "90", "effect": "NoExecute"}


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": rules}


STANDING: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "plain": ({}, {}, None),
    "cordoned": ({}, {"unschedulable": True}, fit.UNSCHEDULABLE),
    "cordon first": ({"nodeSelector": {"x": "y"}}, {"unschedulable": True, "taints": [GPU]}, fit.UNSCHEDULABLE),
    "cordon tolerated": (
        {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
        {"unschedulable": True},
        None,
    ),
    "tainted": ({}, {"taints": [GPU]}, fit.TAINTED),
    "taint before affinity": ({"nodeSelector": {"x": "y"}}, {"taints": [GPU]}, fit.TAINTED),
    "tolerated by value": ({"tolerations": [{"key": "gpu", "value": "yes"}]}, {"taints": [GPU]}, None),
    "tolerates another value": ({"tolerations": [{"key": "gpu", "value": "no"}]}, {"taints": [GPU]}, fit.TAINTED),
    "tolerates everything": ({"tolerations": [{"operator": "Exists"}]}, {"taints": [GPU, SLA]}, None),
    "tolerates another effect": (
        {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]},
        {"taints": [GPU]},
        fit.TAINTED,
    ),
    "a number above the bound": (
        {"tolerations": [{"key": "sla", "operator": "Gt", "value": "80"}]},
        {"taints": [SLA]},
        None,
    ),
    "a number not below the bound": (
        {"tolerations": [{"key": "sla", "operator": "Lt", "value": "80"}]},
        {"taints": [SLA]},
        fit.TAINTED,
    ),
    "a bound that is no number": (
        {"tolerations": [{"key": "sla", "operator": "Gt", "value": "x"}]},
        {"taints": [SLA]},
        fit.TAINTED,
    ),
    "a wish is no obstacle": ({}, {"taints": [SOFT]}, None),
    "selected": ({"nodeSelector": {"a": "b"}}, {"labels": {"a": "b"}}, None),
    "not selected": ({"nodeSelector": {"a": "b"}}, {"labels": {"a": "c"}}, fit.UNSELECTED),
    "one term of several": (
        {"affinity": required(requirement("a", "In", "x"), requirement("a", "Exists"))},
        {"labels": {"a": "b"}},
        None,
    ),
    "no terms": ({"affinity": required()}, {}, fit.UNSELECTED),
    "an empty term": ({"affinity": required({})}, {}, fit.UNSELECTED),
    "greater": ({"affinity": required(requirement("n", "Gt", "5"))}, {"labels": {"n": "6"}}, None),
    "no number to compare with": (
        {"affinity": required(requirement("n", "Gt", "five"))},
        {"labels": {"n": "6"}},
        fit.UNSELECTED,
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
def test_standing(spec: dict[str, Any], there: dict[str, Any], expected: str | None) -> None:
    assert fit.standing(pod(**spec).needs, node(**there)) == expected


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


@pytest.mark.parametrize(("amounts", "expected", "never"), ROOM.values(), ids=ROOM)
def test_room(amounts: dict[str, str], expected: tuple[str, ...], never: bool) -> None:
    needs = pod(containers=[container(**amounts)]).needs
    assert fit.room(needs, {}, busy(), NOTHING) == expected
    assert fit.never_fits(needs, busy()) is never


def test_too_many_pods() -> None:
    needs = pod(containers=[container(cpu="3")]).needs
    assert fit.room(needs, {}, busy(pods="1"), NOTHING) == (fit.TOO_MANY_PODS, "Insufficient cpu")
    assert fit.room(pod().needs, {}, node(pods="0"), NOTHING) == (fit.TOO_MANY_PODS,)


def test_what_devices_serve_is_not_asked_of_the_node() -> None:
    needs = pod(containers=[container(**{"example.com/nic": "1"})]).needs
    assert fit.room(needs, {}, busy(), frozenset({"example.com/nic"})) == ()
    assert not fit.never_fits(needs, busy(), ignored=frozenset({"example.com/nic"}))


def test_what_devices_take_comes_on_top() -> None:
    needs = pod(containers=[container(cpu="1")]).needs
    assert fit.room(needs, {"cpu": 1000, "memory": 1}, busy(), NOTHING) == ()
    assert fit.room(needs, {"cpu": 1001}, busy(), NOTHING) == ("Insufficient cpu",)
    assert fit.room(needs, {"hugepages-2Mi": 1}, busy(), NOTHING) == ("Insufficient hugepages-2Mi",)
    assert fit.never_fits(needs, busy(), {"cpu": 3001})
    assert fit.never_fits(needs, busy(), {"hugepages-2Mi": 1})


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
    needs = pod(containers=[{**container(cpu="8"), "ports": [port]}]).needs
    assert fit.room(needs, {}, busy(), NOTHING) == ((fit.PORTS_TAKEN,) if collides else ("Insufficient cpu",))


def test_a_node_without_a_status_takes_nothing() -> None:
    assert fit.room(pod().needs, {}, Node("n", 0), NOTHING) == (fit.TOO_MANY_PODS,)
