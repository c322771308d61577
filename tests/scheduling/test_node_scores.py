from __future__ import annotations

from typing import Any

import pytest

from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.plugins.image_locality import ImageLocality
from dray.scheduling.plugins.node_affinity import NodeAffinity
from dray.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from dray.scheduling.plugins.node_resources_fit import NodeResourcesFit
from dray.scheduling.plugins.taint_toleration import TaintToleration
from tests.scheduling.models import attempt, container, node, pod

MB = 1024 * 1024


def framework(state: State) -> Framework:
    plugins = [TaintToleration(state), NodeAffinity(), NodeResourcesFit()]
    return Framework(state, [*plugins, NodeResourcesBalancedAllocation(), ImageLocality(state)])


def score(asking: Pod, there: Node, images: dict[str, int] | None = None, nodes: int = 1) -> int:
    """By the node alone; `images` tells on how many of the cluster's `nodes` each image is."""
    state = State()
    state.images, state.size = images or {}, nodes
    made = framework(state)
    return made.score(attempt(made, asking), there)


def compared(asking: Pod, nodes: list[Node]) -> dict[int, int]:
    """By comparison; nothing where all are alike."""
    state = State()
    state.soft_taints = sum(bool(each.taints) for each in nodes)
    made = framework(state)
    cycle, totals = attempt(made, asking), {each.number: 0 for each in nodes}
    made.compare(made.comparing(cycle), cycle, nodes, totals)
    return totals if any(totals.values()) else {}


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
    asking = pod(containers=[container(**amounts)])
    assert score(asking, with_load(**load)) == expected


def test_a_node_without_resources_has_no_room_left() -> None:
    asking = pod(containers=[container(cpu="1")])
    assert score(asking, Node("n", 0)) == 75


IMAGES = {
    "small": (20 * MB, 1, 0),
    "large": (2000 * MB, 1, 100),
    "in between": (512 * MB, 1, 100 * (512 - 23) // (1000 - 23)),
    "on half of the nodes": (1000 * MB, 2, 100 * (500 - 23) // (1000 - 23)),
}


@pytest.mark.parametrize(("size", "nodes", "expected"), IMAGES.values(), ids=IMAGES)
def test_images(size: int, nodes: int, expected: int) -> None:
    asking = pod()
    without = score(asking, with_load(), nodes=nodes)
    there = with_load(images={"busybox:latest": size})
    assert score(asking, there, {"busybox:latest": 1}, nodes) - without == expected


def preferring(*weights: tuple[int, str]) -> dict[str, Any]:
    terms = [
        {"weight": w, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}} for w, key in weights
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def test_alike_nodes_are_not_compared() -> None:
    nodes = [node("a", 0), node("b", 1)]
    assert compared(pod(), nodes) == {}
    assert compared(pod(affinity=preferring((1, "x"))), nodes) == {}
    assert compared(pod(affinity=preferring((1, "x"))), []) == {}


def test_preferred_nodes() -> None:
    asking = pod(affinity=preferring((30, "x"), (10, "y"), (5, "z")))
    nodes = [node("a", 0, labels={"x": "", "y": ""}), node("b", 4, labels={"z": ""}), node("c", 7)]
    assert compared(asking, nodes) == {0: 200, 4: 2 * (100 * 5 // 40), 7: 0}


def test_soft_taints() -> None:
    soft = [{"key": key, "effect": "PreferNoSchedule"} for key in "abc"]
    nodes = [node("a", 0), node("b", 1, taints=soft[:1]), node("c", 2, taints=soft), node("d", 3, taints=soft[2:])]
    asking = pod(tolerations=[{"key": "c", "operator": "Exists"}])
    assert compared(asking, nodes) == {0: 300, 1: 150, 2: 0, 3: 300}
