from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import Allocation, Inventory, allocate
from dray.allocation.taints import effective, rule_applies, tolerated
from tests.allocation.claims import claim, classes, exactly, node, request
from tests.allocation.devices import DRIVER, device, resource_slice

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": "k"}, True),
        ({"operator": "Exists", "key": "other"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"value": "v"}, True),
        ({"key": "k", "operator": "Like", "value": "v"}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], expected: bool) -> None:
    assert tolerated(TAINT, [toleration]) is expected
    assert not tolerated(TAINT, [])


def test_only_two_effects_keep_a_device_from_being_allocated() -> None:
    taints = [{**TAINT, "effect": effect} for effect in ("None", "NoSchedule", "NoExecute", "Later")]
    assert [taint["effect"] for taint in effective(taints)] == ["NoSchedule", "NoExecute"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, True),
        ({}, True),
        ({"driver": DRIVER}, True),
        ({"driver": DRIVER, "pool": "other"}, False),
        ({"device": "d"}, True),
        ({"device": "e"}, False),
    ],
)
def test_rules_taint_what_they_select(selector: dict[str, Any] | None, expected: bool) -> None:
    spec: dict[str, Any] = {"taint": TAINT}
    if selector is not None:
        spec["deviceSelector"] = selector
    assert rule_applies({"spec": spec}, DRIVER, "n", "d") is expected


def test_rules_come_and_go() -> None:
    inventory = Inventory(slices=[resource_slice([device("d")])], classes=classes())
    wanted = [claim("c", request("r", exactly()))]
    rule = {"metadata": {"name": "rule"}, "spec": {"deviceSelector": {"device": "d"}, "taint": TAINT}}
    inventory.put_taint_rule(rule)
    assert not isinstance(allocate(inventory, node(), wanted), Allocation)
    inventory.remove_taint_rule("rule")
    assert isinstance(allocate(inventory, node(), wanted), Allocation)
