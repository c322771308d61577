"""Pressure on a node: conditions, taints' reasons, and pods that are evicted; with thresholds that are surely met."""

import pytest

from dray.node.eviction.pressure import EvictionOptions, Pressure
from dray.node.eviction.ranking import PodConsumption
from dray.node.eviction.thresholds import Observation, parse_hard, parse_soft
from dray.testing.cluster import LocalCluster
from dray.testing.objects import pod as plain_pod
from tests.node.machines import NODE, Machine, pod, ready, shell, states
from tests.node.test_pod_admission import REJECTED

QUICK = {"transition": 0.0, "interval": 0.1}


@pytest.fixture
async def machine(tmp_path):
    async with LocalCluster(controllers=["serviceaccount"]) as cluster:
        yield Machine(cluster, tmp_path)


async def conditions(machine):
    node = await machine.cluster.get("Node", NODE, namespace="")
    return {each["type"]: each["status"] for each in node["status"]["conditions"]}


async def test_without_pressure_pods_run(machine):
    machine.options["eviction"] = EvictionOptions(parse_hard("memory.available<1,pid.available<1"), **QUICK)
    await machine.start()
    await machine.cluster.create(pod("p", shell("sleep 1000")))
    await machine.until("p", ready)
    found = await conditions(machine)
    assert {found[each] for each in ("MemoryPressure", "DiskPressure", "PIDPressure")} == {"False"}
    await machine.stop()
    await machine.clean()


async def test_a_pod_is_evicted_where_memory_is_short(machine):
    await machine.start()
    await machine.cluster.create(pod("p", shell("sleep 1000")))
    await machine.until("p", ready)
    await machine.stop()
    machine.options["eviction"] = EvictionOptions(parse_hard("memory.available<100%"), **QUICK)
    await machine.start()
    found = await machine.phase("p", "Failed")
    assert found["status"]["reason"] == "Evicted"
    assert found["status"]["message"].startswith("The node was low on resource: memory. Threshold quantity: ")
    assert "terminated" in states(found)["c0"]
    targets = [each["reason"] for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert targets == ["TerminationByKubelet"]
    assert (await conditions(machine))["MemoryPressure"] == "True"
    # One that asks for nothing is not even begun.
    await machine.cluster.create(pod("q", shell("sleep 1000")))
    found = await machine.phase("q", "Failed")
    assert (found["status"]["reason"], found["status"]["message"]) == (
        "Evicted",
        "Pod was rejected: The node had condition: [MemoryPressure]. ",
    )
    assert set(found["status"]) <= REJECTED
    await machine.stop()
    await machine.clean()


async def test_a_volume_over_its_limit_evicts_its_pod(machine):
    machine.options["eviction"] = EvictionOptions((), **QUICK)
    await machine.start()
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": "64Ki"}}]
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    script = "head -c 200000 /dev/zero > /scratch/file; sleep 1000"
    await machine.cluster.create(pod("p", shell(script, volumeMounts=mounts), volumes=volumes))
    found = await machine.phase("p", "Failed")
    assert found["status"]["reason"] == "Evicted"
    assert found["status"]["message"] == 'Usage of EmptyDir volume "scratch" exceeds the limit "64Ki". '
    await machine.stop()
    await machine.clean()


class Pod:
    def __init__(self, name):
        self.pod = plain_pod(name)
        self.failed = None

    def fail(self, reason, message, *, grace):
        self.failed = (reason, grace)
        return True

    async def consumption(self):
        return PodConsumption(self.pod, {"main": 1})

    def places(self):
        raise AssertionError


class Events:
    def warning(self, *_):
        pass


async def test_a_soft_threshold_waits_for_its_grace_and_the_condition_stays_for_the_transition(tmp_path):
    now, left, told = [0.0], [50], []
    options = EvictionOptions((), parse_soft("memory.available<100", "memory.available=30s"), transition=60.0)
    pods = [Pod("p")]
    pressure = Pressure(
        tmp_path,
        options,
        lambda: pods,
        Events(),
        lambda: told.append(pressure.conditions),
        observe=lambda _: {"memory.available": Observation(left[0], 1000)},
        now=lambda: now[0],
    )
    await pressure.look()
    assert pressure.conditions == {"MemoryPressure"}
    assert pods[0].failed is None
    now[0] = 30.0
    await pressure.look()
    assert pods[0].failed == ("Evicted", 30.0)
    left[0], now[0] = 200, 89.0
    await pressure.look()
    assert pressure.conditions == {"MemoryPressure"}
    now[0] = 91.0
    await pressure.look()
    assert told == [{"MemoryPressure"}, frozenset()]
