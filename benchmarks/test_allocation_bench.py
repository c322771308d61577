"""How long allocation takes: one claim on one node, a cluster filled claim by claim, and how much memory that is."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from dray.allocation import Allocation, Inventory, allocate, commit
from dray.api.objects import Object

DRIVER = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
MODEL = (
    f'device.attributes["{DRIVER}"].model == "H100" && '
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) > 0'
)
NODES = 1000
GPUS = 8
CLASSES = [
    {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}
]


def gpu(node: str, number: int) -> Object:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "model": {"string": "H100"},
            "index": {"int": number},
            "uuid": {"string": f"GPU-{node}-{number}"},
            "driverVersion": {"version": "1.5.0"},
            ROOT: {"string": f"pci0000:0{number // 2}"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }


def resource_slice(node: str) -> Object:
    return {
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [gpu(node, number) for number in range(GPUS)],
        },
    }


def claim(name: str, count: int = 1, **devices: Any) -> Object:
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": MODEL}}],
    }
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **devices}},
    }


def nodes(number: int) -> list[Object]:
    return [{"metadata": {"name": f"node-{each:04d}", "labels": {}}} for each in range(number)]


def inventory(of: list[Object]) -> Inventory:
    return Inventory(slices=[resource_slice(node["metadata"]["name"]) for node in of], classes=CLASSES)


def place_all(cluster: Inventory, where: list[Object], claims: list[Object]) -> int:
    """Gives each claim the first node that serves it; the number of claims that found one.

    The claims ask for the same, so a node that refused one is not asked again.
    """
    left = list(claims)
    for node in where:
        while left and isinstance(answer := allocate(cluster, node, [left[-1]], explain=False), Allocation):
            commit(cluster, answer)
            left.pop()
    return len(claims) - len(left)


def test_one_claim_on_one_node(benchmark: Any) -> None:
    where = nodes(1)
    cluster = inventory(where)
    answer = benchmark(allocate, cluster, where[0], [claim("c")])
    assert isinstance(answer, Allocation)
    assert benchmark.stats.stats.median < 60e-6


@pytest.mark.parametrize(("count", "seconds"), [(1, 2.0), (2, 4.0)], ids=["one-gpu", "two-on-one-root"])
def test_fill_a_cluster(benchmark: Any, count: int, seconds: float) -> None:
    constraints = {"constraints": [{"matchAttribute": ROOT}]} if count > 1 else {}
    claims = [claim(f"c{number}", count, **constraints) for number in range(NODES * GPUS // count)]

    def setup() -> tuple[tuple[Any, ...], dict[str, Any]]:
        where = nodes(NODES)
        cluster = inventory(where)
        return (cluster, where, claims), {}

    placed = benchmark.pedantic(place_all, setup=setup, rounds=3)
    assert placed == len(claims)
    assert benchmark.stats.stats.min < seconds


def test_compile_a_cluster(benchmark: Any) -> None:
    where = nodes(NODES)

    def compile_all() -> Inventory:
        cluster = inventory(where)
        for node in where:
            cluster.view(node)
        return cluster

    benchmark.pedantic(compile_all, rounds=3)


def test_memory_of_a_cluster() -> None:
    tracemalloc.start()
    where = nodes(NODES)
    cluster = inventory(where)
    place_all(cluster, where, [claim(f"c{number}") for number in range(NODES * GPUS)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300 * 1024 * 1024
