"""Which of the nodes that fit is better: Kubernetes' scores, with its weights and its rounding.

`resource_score` looks at one node alone, so that it can be kept until the node changes. `preferences` compares nodes
with each other, as their scores are normalised to the best among those that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from dray.scheduling.model import Needs, Node
from dray.scheduling.tolerations import disliked

_TAINT_WEIGHT: Final = 3
_AFFINITY_WEIGHT: Final = 2
_SMALL_IMAGES: Final = 23 * 1024 * 1024
_LARGE_IMAGE: Final = 1000 * 1024 * 1024


def resource_score(needs: Needs, node: Node, images: Mapping[str, int], nodes: int) -> int:
    """Room left, balance between cpu and memory, and images that are there already; each up to 100.

    `images` tells on how many of the cluster's `nodes` each image is.
    """
    allocatable, requests = node.allocatable, needs.requests
    cpu, memory = allocatable.get("cpu", 0), allocatable.get("memory", 0)
    score = _room_left(needs, node, cpu, memory)
    if "cpu" in requests or "memory" in requests:
        used_cpu, used_memory = node.requested.get("cpu", 0), node.requested.get("memory", 0)
        before = _balance(used_cpu, cpu, used_memory, memory)
        after = _balance(used_cpu + requests.get("cpu", 0), cpu, used_memory + requests.get("memory", 0), memory)
        score += 50 + (50 + after - before) // 2
    if node.images and needs.images:
        score += _image_score(needs, node, images, nodes)
    return score


def _room_left(needs: Needs, node: Node, cpu: int, memory: int) -> int:
    wanted, used = needs.scoring, node.scoring
    total = resources = 0
    if cpu:
        resources += 1
        free = cpu - wanted.get("cpu", 0) - used.get("cpu", 0)
        if free > 0:
            total += free * 100 // cpu
    if memory:
        resources += 1
        free = memory - wanted.get("memory", 0) - used.get("memory", 0)
        if free > 0:
            total += free * 100 // memory
    return total // resources if resources else 0


def _balance(used_cpu: int, cpu: int, used_memory: int, memory: int) -> int:
    """100 where both are used to the same part, 50 where one is full and the other empty."""
    if not cpu or not memory:
        return 100
    of_cpu, of_memory = used_cpu / cpu, used_memory / memory
    if of_cpu > 1:
        of_cpu = 1.0
    if of_memory > 1:
        of_memory = 1.0
    return int((1 - abs((of_cpu - of_memory) / 2)) * 100)


def _image_score(needs: Needs, node: Node, images: Mapping[str, int], nodes: int) -> int:
    there = node.images
    # An image counts the more the more nodes have it, lest all pods follow the first one.
    total = sum(int(there[name] * (images.get(name, 1) / max(1, nodes))) for name in needs.images if name in there)
    most = _LARGE_IMAGE * len(needs.images)
    return 100 * (min(max(total, _SMALL_IMAGES), most) - _SMALL_IMAGES) // (most - _SMALL_IMAGES)


def preferences(needs: Needs, nodes: Collection[Node]) -> dict[int, int]:
    """By number: taints that would rather have the pod elsewhere, and preferred node affinity.

    Empty where all of these nodes are alike in both.
    """
    total: dict[int, int] = {}
    if any(node.taints for node in nodes):
        dislike = _each(nodes, lambda node: disliked(node.taints, needs.tolerations))
        worst = max(dislike.values())
        if worst:
            total = {number: _TAINT_WEIGHT * (100 - 100 * count // worst) for number, count in dislike.items()}
    if needs.preferred:
        liking = _each(nodes, lambda node: _preferred(needs, node))
        best = max(liking.values(), default=0)
        if best > 0:
            for number, weight in liking.items():
                total[number] = total.get(number, 0) + _AFFINITY_WEIGHT * (100 * weight // best)
    return total


def _each(nodes: Collection[Node], count: Callable[[Node], int]) -> dict[int, int]:
    return {node.number: count(node) for node in nodes}


def _preferred(needs: Needs, node: Node) -> int:
    return sum(needs.weights[number] for number in needs.preferred.all(node.name, node.labels))
