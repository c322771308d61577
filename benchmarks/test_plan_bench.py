"""Plans: 5,000 nodes with 8 GPUs each that are all in use, and four pods that do not fit."""

import os
import time

import pytest

from dray.drivers.devices.classes import device_classes
from dray.fleet.choice import choose
from dray.planning.fleet_scene import fleet_objects
from dray.planning.playing import play
from dray.planning.scene import Scene
from dray.planning.suggestions import Budget, suggest
from dray.scheduling.scheduler import Options

NODES = 5000
DRIVER = "gpu.nvidia.com"


def _request(count):
    exactly = {"deviceClassName": DRIVER, "count": count, "allocationMode": "ExactCount"}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def _user(machine, number):
    """A pod with two GPUs, and its claim."""
    name = f"{machine.name}-{number}"
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": machine.name, "device": f"gpu-{2 * number + each}"}
        for each in range(2)
    ]
    metadata = {"name": name, "namespace": "default", "uid": name}
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"resource": "pods", "uid": name}]}
    claim = {"metadata": {**metadata, "uid": f"c-{name}"}, "spec": _request(2), "status": status}
    entries = [{"name": "gpu", "resourceClaimName": name}]
    spec = {"nodeName": machine.name, "resourceClaims": entries, "containers": [{"name": "c"}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, claim


def _wanted(number):
    metadata = {"name": f"w-{number}", "namespace": "default", "uid": f"w-{number}"}
    entries = [{"name": "gpu", "resourceClaimTemplateName": "two"}]
    spec = {"resourceClaims": entries, "containers": [{"name": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


@pytest.fixture(scope="module")
def scene():
    machines = choose([f"a3-highgpu-8g={NODES}"]).machines
    cluster = fleet_objects(machines)
    cluster["ResourceSlice"] = [each for each in cluster["ResourceSlice"] if each["spec"]["driver"] == DRIVER]
    cluster["DeviceClass"] = device_classes([DRIVER])
    users = [_user(machine, number) for machine in machines for number in range(4)]
    cluster["Pod"], cluster["ResourceClaim"] = map(list, zip(*users, strict=True))
    template = {"metadata": {"name": "two", "namespace": "default"}, "spec": {"spec": _request(2)}}
    wanted = {"Pod": [_wanted(number) for number in range(4)], "ResourceClaimTemplate": [template]}
    return Scene(cluster, wanted, 1.8e9)


def _cpu_seconds():
    """Of this process and of its children."""
    return sum(os.times()[:4])


def test_an_answer_for_5000_nodes(benchmark, scene):
    """The promise is 5 s, with the reading of a snapshot."""
    began = _cpu_seconds()
    played = benchmark.pedantic(lambda: play(scene, Options()), rounds=1)
    assert not played.fits
    assert _cpu_seconds() - began < 4


def test_a_change_that_helps_for_5000_nodes(benchmark, scene):
    """The promise is 15 s, the answer included."""
    played, budget, began = play(scene, Options()), Budget(tries=200, seconds=60, found=1), _cpu_seconds()
    found = benchmark.pedantic(lambda: suggest(scene, played, Options(), budget, time.monotonic), rounds=1)
    assert [each.change.text for each in found.suggestions] == ["add 1 a3-highgpu-8g"]
    assert _cpu_seconds() - began < 10
