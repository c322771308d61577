"""A fleet with pods of all lives, and devices that fail and recover meanwhile, comes to a quiet end with nothing held.

The tests have a small fleet; `make soak` has twenty seeds of 200 machines and 1,000 pods.
"""

import asyncio
import os
from collections import Counter
from contextlib import suppress

import pytest

from dray.client.errors import ApiError
from dray.client.interface import DeleteOptions
from dray.testing import objects
from dray.testing.cluster import kind_of
from tests.fleet.rehearsal import Rehearsal
from tests.fleet.soundness import Witness

SEEDS = int(os.environ.get("DRAY_FLEET_SEEDS", "1"))
FIRST = int(os.environ.get("DRAY_FLEET_SEED", "1"))
MACHINES = int(os.environ.get("DRAY_FLEET_MACHINES", "7"))
PODS = int(os.environ.get("DRAY_FLEET_PODS", "24"))

STAGES = """
apiVersion: fleet.dray.dev/v1alpha1
kind: Stages
pods:
- match: {labels: {life: short}}
  startSeconds: [0, 5]
  runSeconds: [5, 60]
- match: {labels: {life: failing}}
  runSeconds: [5, 30]
  exitCode: {1: 2, 0: 1}
- match: {labels: {life: crashing}}
  runSeconds: [1, 5]
  exitCode: [1, 1, 0]
- match: {labels: {life: stubborn}}
  stopSeconds: 100
devices:
- driver: gpu.nvidia.com
  device: gpu-?
  everySeconds: 400
  times: 2
  downSeconds: [30, 120]
  taint: {key: gpu.nvidia.com/xid, value: "79", effect: NoExecute}
- driver: gpu.nvidia.com
  device: gpu-?-mig-1g*-19-0
  everySeconds: 500
  times: 1
- driver: dra.net
  device: pci-0000-?1-00-0
  everySeconds: 600
  times: 1
  taint: {key: dra.net/down, effect: NoSchedule}
nodes:
- nodes: {name: "cpu-64-*"}
  everySeconds: 900
  times: 1
  downSeconds: [20, 400]
"""
GPU, MIG = "gpu.nvidia.com", "mig.nvidia.com"
TEMPLATES = {
    "one": [objects.request(deviceClassName=GPU)],
    "pair": [objects.request(deviceClassName=GPU, count=2)],
    "mig": [
        objects.request(deviceClassName=MIG, selectors=["device.attributes['gpu.nvidia.com'].profile.startsWith('1g')"])
    ],
    "either": [
        objects.first_available(
            "gpu",
            objects.subrequest("big", deviceClassName=GPU, count=4),
            objects.subrequest("small", deviceClassName=MIG),
        )
    ],
    "share": [objects.request(deviceClassName=GPU, capacity={"requests": {"memory": "10Gi"}})],
    "cpus": [objects.request("cpu", deviceClassName="dra.cpu", capacity={"requests": {"dra.cpu/cpu": "4"}})],
    "aligned": [objects.request("gpu", deviceClassName=GPU), objects.request("nic", deviceClassName="dra.net")],
    "chips": [objects.request("tpu", deviceClassName="tpu.google.com", allocationMode="All")],
}
ALIGNED = [{"requests": ["gpu", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}]
LIVES = {
    "short": "Never",
    "failing": "Never",
    "crashing": "OnFailure",
    "endless": "Always",
    "stubborn": "Always",
}


def fleet():
    """Machines of all kinds, so many together."""
    kinds = ("p5.48xlarge", "a3-highgpu-8g:mig", "p4d.24xlarge", "a3-highgpu-8g:shared-memory", "ct6e-standard-4t")
    counts = Counter(kinds[number % len(kinds)] for number in range(max(MACHINES - 2, 1)))
    return ",".join(f"{kind}={count}" for kind, count in {**counts, "cpu-64": 2}.items())


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
async def test_a_fleet_comes_to_a_quiet_end(seed, virtual_time, tmp_path):
    stages = tmp_path / "stages.yaml"
    stages.write_text(STAGES)
    async with Rehearsal(fleet(), str(stages), seed=seed).going() as cluster:
        witness = Witness(cluster.client)
        watching = asyncio.create_task(witness.watch())
        for name, requests in TEMPLATES.items():
            constraints = ALIGNED if name == "aligned" else None
            await cluster.create(objects.claim_template(name, *requests, constraints=constraints))
        await live(cluster)
        await cluster.until(lambda: ended(cluster), within=6 * 3600)
        await cluster.until(lambda: nothing_failed(cluster), within=3600)
        watching.cancel()
        await check_quiet(cluster, witness)


async def live(cluster):
    """Pods come one after the other; some of them are deleted again; once, the fleet's process is started anew."""
    for number in range(PODS):
        life = cluster.random.choice(list(LIVES))
        chosen = [cluster.random.choice(list(TEMPLATES))] if cluster.random.random() < 0.9 else []
        grace = cluster.random.choice((0, 5, 30))
        name = f"p{number}"
        await cluster.create(
            objects.pod(
                name,
                templates=chosen,
                labels={"life": life},
                restartPolicy=LIVES[life],
                terminationGracePeriodSeconds=grace,
                requests={"cpu": "1"},
            )
        )
        if cluster.random.random() < 0.1:
            await remove(cluster, f"p{cluster.random.randrange(number + 1)}", force=cluster.random.random() < 0.2)
        if number == PODS // 2:
            await cluster.restart_simulation()
        await asyncio.sleep(cluster.random.random() * 4)


async def remove(cluster, name, *, force=False):
    # It may be gone already.
    with suppress(ApiError):
        options = DeleteOptions(grace_period=0 if force else None)
        await cluster.client.delete(kind_of("Pod"), name, namespace="default", options=options)


async def ended(cluster):
    """Whoever runs without end is deleted, so that those who wait get their turn."""
    pods = await cluster.list("Pod")
    for pod in pods:
        endless = pod["metadata"]["labels"]["life"] in ("endless", "stubborn")
        runs = (pod.get("status") or {}).get("phase") == "Running"
        if endless and runs and not pod["metadata"].get("deletionTimestamp") and cluster.random.random() < 0.3:
            await remove(cluster, pod["metadata"]["name"])
    await asyncio.sleep(60)
    return all((pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") for pod in pods)


async def nothing_failed(cluster):
    """Neither devices nor nodes, for the moment; and whatever follows from the end of pods has been done."""
    await asyncio.sleep(60)
    if any(each["spec"].get("taints") for each in await cluster.list("Node")):
        return False
    slices = cluster.simulation.informers.of(kind_of("ResourceSlice")).cache
    return not any(each.get("taints") for found in slices for each in found["spec"].get("devices") or ())


async def check_quiet(cluster, witness):
    assert not witness.problems
    assert len(cluster.simulation.kubelets.claims) == 0
    for pod in await cluster.list("Pod"):
        assert not pod["metadata"].get("deletionTimestamp")
        states = [each["state"] for each in pod["status"]["containerStatuses"]]
        assert all("terminated" in each for each in states), pod["status"]
    for claim in await cluster.list("ResourceClaim"):
        status = claim.get("status") or {}
        assert not status.get("allocation"), claim
        assert not status.get("reservedFor"), claim
    # It was not quiet all the time.
    assert witness.phases["Succeeded"]
    assert witness.phases["Failed"]
    assert witness.evicted
    assert witness.restarts
    assert witness.failures
