"""A replay of a recording ends as the cluster did that was recorded: the same nodes and devices for every pod.

The cluster is a rehearsed one: its server, scheduler and controllers are those of `dray up`. DRAY_REPLAY_WORLDS is the
number of random worlds.
"""

import asyncio
import os
from random import Random

import pytest

from dray.api.objects import key_of
from dray.api.pods import claims_used, node_of
from dray.api.resource_claims import results_of
from dray.client.api import ApiClient
from dray.replay.device_units import published_devices
from dray.replay.recordings import recorded_workloads, shared_claims
from dray.replay.simulation import Simulation
from dray.replay.workloads import World
from dray.snapshot.in_memory import stored
from dray.snapshot.listing import listed
from dray.snapshot.recording import Recorder, record
from dray.snapshot.transport import SnapshotTransport
from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal

WORLDS = int(os.environ.get("DRAY_REPLAY_WORLDS", "3"))
FLEET = "a3-highgpu-1g=2,a2-highgpu-2g=2,g2-standard-8=2,a2-ultragpu-1g:mig=2"
POLICIES = ("kubernetes", "pack", "spread")
GPU = "gpu.nvidia.com"
BETWEEN = 20
"""Seconds between two pods: more than a pod takes to start or stop, which a replay does not know."""


class Observed(Simulation):
    """A simulation that notes where each pod was placed."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.placed = {}

    def _started(self, bind, events):
        devices = [
            (result["pool"], result["device"])
            for write in bind.writes
            for result in (write.allocation or {"devices": {"results": []}})["devices"]["results"]
        ]
        self.placed[bind.pod.key[1]] = (bind.node, devices)
        super()._started(bind, events)


def templates():
    root = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
    for count in (1, 2):
        yield objects.claim_template(f"gpus-{count}", objects.request(deviceClassName=GPU, count=count))
    yield objects.claim_template("close", objects.request(deviceClassName=GPU, count=2), constraints=root)
    a100 = f"device.attributes['{GPU}'].productName.contains('A100')"
    yield objects.claim_template(
        "a100", objects.request(deviceClassName=GPU, selectors=[{"cel": {"expression": a100}}])
    )

    for profile in ("1g.10gb", "3g.40gb"):
        cel = f"device.attributes['{GPU}'].profile == '{profile}'"
        request = objects.request(deviceClassName="mig.nvidia.com", selectors=[{"cel": {"expression": cel}}])
        yield objects.claim_template(f"part-{profile[0]}", request)


def random_pod(random, number):
    annotations = {}
    if random.random() < 0.6:
        annotations["simulated.dray.dev/run-seconds"] = str(random.choice((13, 29, 53, 71)))
    members = {"priorityClassName": "patient"} if random.random() < 0.3 else {}
    if random.random() < 0.3:
        members["nodeSelector"] = {
            "node.kubernetes.io/instance-type": random.choice(("a2-highgpu-2g", "a3-highgpu-1g"))
        }
    requests = {"cpu": str(random.choice((1, 4, 8)))}
    template = (
        {"gpu": random.choice(("gpus-1", "gpus-1", "gpus-2", "close", "a100", "part-1", "part-3"))}
        if random.random() < 0.9
        else {}
    )
    return objects.pod(
        f"p{number:02}",
        templates=template,
        requests=requests,
        restartPolicy="Never",
        metadata={"annotations": annotations},
        **members,
    )


async def recorded(seed, policy):
    """Returns what was listed from the recording of a cluster to which pods came one after the other."""
    random, stop = Random(seed), asyncio.Event()
    async with Rehearsal(FLEET, seed=seed, policy=policy).going() as cluster:
        patient = objects.priority_class("patient", 5, preemptionPolicy="Never")
        await cluster.create(patient, *templates())
        await asyncio.sleep(BETWEEN)
        clock = lambda: cluster.time.now().timestamp()  # noqa: E731
        recording = asyncio.create_task(record(cluster.client, "default", Recorder(clock), None, stop))
        await asyncio.sleep(BETWEEN)
        for number in range(14):
            await cluster.create(random_pod(random, number))
            await asyncio.sleep(BETWEEN)
        await asyncio.sleep(300)
        stop.set()
        return (await listed(ApiClient(SnapshotTransport(stored(await recording))))).objects


def in_the_cluster(found):
    claims = {key_of(each): each for each in found["ResourceClaim"]}
    pods = sorted(found["Pod"], key=key_of)
    return [
        (
            node_of(pod),
            [
                (result["pool"], result["device"])
                for _, name in claims_used(pod)
                for result in results_of(claims[key_of(pod)[0], name])
            ],
        )
        for pod in pods
    ]


def in_the_replay(found, policy):
    published = published_devices(found["ResourceSlice"])
    workloads = recorded_workloads(found, published)
    empty = {**found, "Pod": [], "ResourceClaim": shared_claims(found)}
    simulation = Observed(World(empty, frozenset([GPU])), policy)
    run = simulation.play_in_time(workloads)
    assert run.errors == []
    return [simulation.placed.get(f"task-{number}", ("", [])) for number in range(len(workloads))]


@pytest.mark.parametrize("seed", range(WORLDS))
async def test_a_replay_ends_on_the_same_nodes_with_the_same_devices(seed, virtual_time):
    policy = POLICIES[seed % len(POLICIES)]
    found = await recorded(seed, policy)
    placed = in_the_cluster(found)
    assert sum(bool(devices) for _, devices in placed) >= 3
    assert in_the_replay(found, policy) == placed
