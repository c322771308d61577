from __future__ import annotations

from typing import Any

import pytest

from dray.scheduling import scores
from dray.scheduling.model import Node
from tests.scheduling.models import container, node, pod

MB = 1024 * 1024


def with_load(cpu: str = "0", memory: str = "0", **members: Any) -> Node:
    made = node(cpu="10", memory="10Gi", **members)
    made.add(pod("there", containers=[container(cpu=cpu, memory=memory)]))
    return made


# Room left is the mean of both parts in hundredths; balance is 75 where nothing changes, 100 or 50 at the ends.
RESOURCES = {
    "empty node": ({"cpu": "1", "memory": "1Gi"}, {}, 90 + 75),
    "leans more": ({"cpu": "10", "memory": "0"}, {}, 50 + 50),
    "leans less": ({"cpu": "0", "memory": "10Gi"}, {"cpu": "10"}, 0 + 100),
    "truncated": ({"cpu": "1", "memory": "1Gi"}, {"cpu": "3333m"}, (56 + 90) // 2 + 75),
    "a pod that asks for nothing is not balanced": ({}, {}, (99 + 98) // 2),
}


@pytest.mark.parametrize(("amounts", "load", "expected"), RESOURCES.values(), ids=RESOURCES)
def test_resources(amounts: dict[str, str], load: dict[str, str], expected: int) -> None:
    needs = pod(containers=[container(**amounts)]).needs
    assert scores.resource_score(needs, with_load(**load), {}, 1) == expected


def test_a_node_without_resources_has_no_room_left() -> None:
    needs = pod(containers=[container(cpu="1")]).needs
    assert scores.resource_score(needs, Node("n", 0), {}, 1) == 75


IMAGES = {
    "small": (20 * MB, 1, 0),
    "large": (2000 * MB, 1, 100),
    "in between": (512 * MB, 1, 100 * (512 - 23) // (1000 - 23)),
    "on half of the nodes": (1000 * MB, 2, 100 * (500 - 23) // (1000 - 23)),
}


@pytest.mark.parametrize(("size", "nodes", "expected"), IMAGES.values(), ids=IMAGES)
def test_images(size: int, nodes: int, expected: int) -> None:
    needs = pod().needs
    without = scores.resource_score(needs, with_load(), {}, nodes)
    there = with_load(images={"busybox:latest": size})
    assert scores.resource_score(needs, there, {"busybox:latest": 1}, nodes) - without == expected


def preferring(*weights: tuple[int, str]) -> dict[str, Any]:
    terms = [
        {"weight": w, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}} for w, key in weights
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def test_alike_nodes_are_not_compared() -> None:
    nodes = [node("a", 0), node("b", 1)]
    assert scores.preferences(pod().needs, nodes) == {}
    assert scores.preferences(pod(affinity=preferring((1, "x"))).needs, nodes) == {}
    assert scores.preferences(pod(affinity=preferring((1, "x"))).needs, []) == {}


def test_preferred_nodes() -> None:
    needs = pod(affinity=preferring((30, "x"), (10, "y"), (5, "z"))).needs
    nodes = [node("a", 0, labels={"x": "", "y": ""}), node("b", 4, labels={"z": ""}), node("c", 7)]
    assert scores.preferences(needs, nodes) == {0: 200, 4: 2 * (100 * 5 // 40), 7: 0}


def test_soft_taints() -> None:
    soft = [{"key": key, "effect": "PreferNoSchedule"} for key in "abc"]
    nodes = [node("a", 0), node("b", 1, taints=soft[:1]), node("c", 2, taints=soft), node("d", 3, taints=soft[2:])]
    needs = pod(tolerations=[{"key": "c", "operator": "Exists"}]).needs
    assert scores.preferences(needs, nodes) == {0: 300, 1: 150, 2: 0, 3: 300}
