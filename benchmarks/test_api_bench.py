"""What the API objects cost: the bounds are those the project promises; figures go to results.json."""

from itertools import cycle

import msgspec
import pytest

from dray.api import catalogue, intake
from dray.api.gates import DEFAULT_GATES
from dray.api.intake import Accepted, Place
from dray.api.quantity import Quantity, _parse
from dray.api.rules import Rules

NOW = "2026-01-01T00:00:00Z"


def device(index):
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "uuid": {"string": f"GPU-4cf8db2d-06c0-7d70-1a51-{index:012d}"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "architecture": {"string": "Hopper"},
            "index": {"int": index},
            "driverVersion": {"version": "580.82.7"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index % 8:02x}"},
        },
        "capacity": {"memory": {"value": "80Gi"}, "multiprocessors": {"value": str(132 + index)}},
    }


SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "node-a-gpu"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node-a",
        "devices": [device(index) for index in range(128)],
    },
}


def test_decode_and_validate_a_slice_of_128_devices(benchmark):
    body = msgspec.json.encode(SLICE)
    target = catalogue.find(SLICE["apiVersion"], SLICE["kind"])

    def take_in():
        document = intake.read_json(body)
        return intake.create(document, target, Place(), Rules(DEFAULT_GATES), now=NOW)

    assert isinstance(benchmark(take_in), Accepted)
    assert benchmark.stats["min"] < 2e-3


@pytest.mark.parametrize("text", ["16Gi", "1500m", "8", "1.5Gi", "1e3"])
def test_parse_and_compare_a_quantity(benchmark, text):
    """Without the cache of parsed texts."""
    parse = _parse.__wrapped__
    other = Quantity.parse("8Gi")
    benchmark(lambda: parse(text) < other)
    assert benchmark.stats["min"] < 3e-6


def test_parse_a_quantity_seen_before(benchmark):
    texts = cycle(["16Gi", "1500m", "8", "80Gi"])
    benchmark(lambda: Quantity.parse(next(texts)))
