"""The driver behind a kubelet: claims allocated by the scheduler, prepared over gRPC, and seen from inside."""

import uuid
from contextlib import asynccontextmanager

import msgspec
import pytest

from dray.driver import RunnerOptions
from dray.driver.runner import DriverRunner
from dray.drivers.cpu.driver import CpuDriver
from dray.drivers.cpu.options import CpuOptions
from dray.node.cdi import resolve
from dray.node.cpusets.lists import parse_cpuset
from dray.node.cpusets.pinning import Pinning, claimed_cpus
from dray.node.errors import NodeError
from dray.node.runtimes.configs import ContainerConfig, SandboxConfig
from dray.node.runtimes.process import ProcessRuntime
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import claim, device_class, node, pod, request
from tests.drivers.cpu.machines import machine, write_sysfs
from tests.drivers.cpu.runc import allowed_cpus

NODE = "worker"


def cpus(count, **members):
    return request("cpus", deviceClassName="dra.cpu", capacity={"requests": {"dra.cpu/cpu": str(count)}}, **members)


class World:
    """A cluster with one node, its kubelet, and the driver under test."""

    def __init__(self, cluster, kubelet, settings):
        self.cluster = cluster
        self.kubelet = kubelet
        self._settings = settings
        self.runner = None

    async def start_driver(self, **settings):
        options = msgspec.convert({**self._settings, **settings}, CpuOptions)
        place = RunnerOptions(
            node_name=NODE, kubelet_root=self.kubelet.root, cdi_directory=self.kubelet.cdi, repair_delay=0.1
        )
        self.runner = DriverRunner(CpuDriver(options), self.cluster.client, place)
        await self.runner.__aenter__()
        await self.kubelet.registered("dra.cpu")

    async def stop_driver(self):
        await self.runner.__aexit__(None, None, None)

    async def pod(self, name, *requests):
        """A pod with a claim, placed by the scheduler; gives the environment of its container."""
        await self.place(name, *requests)
        return await self.start(name)

    async def place(self, name, *requests):
        await self.cluster.create(claim(name, *requests))
        await self.cluster.create(pod(name, claims=[name]))

        async def bound():
            return (await self.cluster.get("Pod", name))["spec"].get("nodeName")

        await self.cluster.eventually(bound)

    async def start(self, name):
        started = await self.kubelet.start_pod(name)
        return dict(resolve(started.cdi_ids["main"], [self.kubelet.cdi]).environment)

    def cdi_files(self):
        return [path.name for path in self.kubelet.cdi.iterdir()]


@asynccontextmanager
async def world(**settings):
    objects = [node(NODE, cpu="64"), device_class("dra.cpu", "device.driver == 'dra.cpu'")]
    async with (
        LocalCluster(scheduler=Options(), controllers=["resourceclaim"], objects=objects) as cluster,
        KubeletDouble(cluster.client, NODE) as kubelet,
    ):
        made = World(cluster, kubelet, settings)
        await made.start_driver()
        try:
            yield made
        finally:
            await made.stop_driver()


@pytest.fixture
def server(tmp_path):
    """Settings for a machine of two NUMA nodes with four cores each; siblings are n and n+8."""
    root = write_sysfs(tmp_path / "sys", machine(nodes=2, cores=4))
    return {"sysfsRoot": str(root), "cgroupRoot": str(tmp_path / "none"), "reservedCPUs": "0,8"}


@pytest.mark.parametrize("mode", ["grouped", "individual"])
async def test_two_processes_prepared_with_one_cpu_each_see_different_cpus(
    mode, kernel_cgroups, two_cpus, start_process
):
    wanted = cpus(1) if mode == "grouped" else request("cpus", deviceClassName="dra.cpu")
    async with world(cpuDeviceMode=mode, sharedPool="off") as here:
        seen = []
        for name in ("a", "b"):
            environment = await here.pod(name, wanted)
            process = start_process(**environment)
            Pinning(name, claimed_cpus(environment), kernel_cgroups).apply(process.pid)
            seen.append(process.seen())
        assert [len(each) for each in seen] == [1, 1]
        assert not seen[0] & seen[1]


async def test_containers_of_the_process_runtime_are_on_their_cpus_from_the_first_instruction(two_cpus, tmp_path):
    async with world(sharedPool="off") as here:
        runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[here.kubelet.cdi])
        seen = []
        for name in ("a", "b"):
            await here.pod(name, cpus(1))
            started = await here.kubelet.start_pod(name)
            uid = started.pod["metadata"]["uid"]
            await runtime.create_sandbox(SandboxConfig(pod_uid=uid, namespace="default", name=name))
            # A pod cannot give itself CPUs by naming them.
            config = ContainerConfig(
                pod_uid=uid,
                namespace="default",
                pod_name=name,
                name="main",
                attempt=0,
                image="busybox",
                command=("grep", "Cpus_allowed_list", "/proc/self/status"),
                args=(),
                environment={"DRA_CPUSET_mine": "0-1"},
                log_path=tmp_path / f"{name}.log",
                cdi_devices=tuple(started.cdi_ids["main"]),
            )
            await runtime.wait((await runtime.start(config)).id)
            seen.append(parse_cpuset(config.log_path.read_text().split()[-1]))
            await runtime.remove_sandbox(uid)
        assert [len(each) for each in seen] == [1, 1]
        assert not seen[0] & seen[1]


async def test_claims_get_whole_cores_of_their_numa_node_beside_reserved_cpus(server):
    async with world(**server) as here:
        near = "device.attributes['resource.kubernetes.io'].numaNode == 0"
        environment = await here.pod("a", cpus(4, selectors=[near]))
        ((name, value),) = environment.items()
        stored = await here.cluster.get("ResourceClaim", "a")
        assert name == f"DRA_CPUSET_{stored['metadata']['uid']}"
        assert value == "1-2,9-10"
        (status,) = stored["status"]["devices"]
        assert status["data"] == {"cpuset": "1-2,9-10"}
        assert claimed_cpus(await here.pod("b", cpus(2, selectors=[near]))) == {3, 11}


async def test_one_claim_with_several_requests_has_all_cpus_in_one_variable(server):
    async with world(**server) as here:
        both = [
            {**cpus(2, selectors=[f"device.attributes['dra.cpu'].numaNodeID == {numa}"]), "name": f"n{numa}"}
            for numa in (0, 1)
        ]
        assert list((await here.pod("a", *both)).values()) == ["1,4,9,12"]


async def test_a_restarted_driver_keeps_what_claims_hold(server):
    async with world(**server) as here:
        before = await here.pod("a", cpus(4))
        await here.stop_driver()
        for path in here.kubelet.cdi.iterdir():
            path.unlink()
        await here.start_driver()
        # A kubelet that was started anew prepares again, and the claim has the same CPUs.
        await here.kubelet.restart()
        await here.kubelet.registered("dra.cpu")
        assert await here.start("a") == before
        after = await here.pod("b", cpus(4))
        assert not claimed_cpus(before) & claimed_cpus(after)


async def test_cpus_of_an_ended_pod_are_given_again_and_nothing_is_left_behind(server):
    async with world(**server) as here:
        first = await here.pod("a", cpus(7, selectors=["device.attributes['dra.cpu'].numaNodeID == 1"]))
        assert len(here.cdi_files()) == 1
        await here.kubelet.end_pod("a")
        assert here.cdi_files() == []
        assert list((here.kubelet.root / "plugins/dra.cpu/claims").glob("*.json")) == []
        await here.cluster.delete("Pod", "a")
        second = await here.pod("b", cpus(8, selectors=["device.attributes['dra.cpu'].numaNodeID == 1"]))
        assert claimed_cpus(first) <= claimed_cpus(second)


async def test_a_claim_that_would_leave_no_shared_cpu_says_so_and_waits(server):
    async with world(**{**server, "reservedCPUs": ""}) as here:
        await here.pod("a", cpus(8))
        await here.place("b", cpus(8))
        with pytest.raises(NodeError, match="would leave 0 CPUs for everybody without a claim; reserve some"):
            await here.kubelet.try_pod("b")
        await here.kubelet.end_pod("a")
        assert claimed_cpus(await here.start("b"))


async def test_while_a_record_cannot_be_read_nothing_is_given_away_twice(server):
    async with world(**server) as here:
        held = await here.pod("a", cpus(4))
        (record,) = (here.kubelet.root / "plugins/dra.cpu/claims").glob("*.json")
        content = record.read_bytes()
        record.write_bytes(content[:-20])
        await here.place("b", cpus(4))
        with pytest.raises(NodeError, match=f"{record.name} cannot be read"):
            await here.kubelet.try_pod("b")
        record.write_bytes(content)
        assert not claimed_cpus(held) & claimed_cpus(await here.start("b"))


async def test_offline_cpus_make_their_device_unhealthy(server, tmp_path, monkeypatch):
    monkeypatch.setattr("dray.drivers.cpu.driver._HEALTH", 0.05)
    async with world(**server) as here:
        (tmp_path / "sys/devices/system/cpu/online").write_text("0-14\n")

        async def tainted():
            slices = await here.cluster.list("ResourceSlice")
            return {each["name"]: each.get("taints") for one in slices for each in one["spec"]["devices"]}

        async def unhealthy():
            return (await tainted())["cpudevnuma001"]

        assert (await here.cluster.eventually(unhealthy))[0]["key"] == "dra.cpu/unhealthy"
        assert (await tainted())["cpudevnuma000"] is None
        (tmp_path / "sys/devices/system/cpu/online").write_text("0-15\n")

        async def healthy():
            return not await unhealthy()

        await here.cluster.eventually(healthy)


@pytest.fixture
def cgroup_root(kernel_cgroups, tmp_path):
    """As a machine shows it whose cgroups are those of the test."""
    if kernel_cgroups.version == 2:
        return kernel_cgroups.root
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup/cpuset").symlink_to(kernel_cgroups.root)
    return tmp_path / "cgroup"


async def test_containers_of_a_kubelet_are_held_to_their_cpus_and_others_kept_off(runc, cgroup_root, two_cpus):
    first, second = two_cpus
    other = runc.start(uuid.uuid4(), "other", ["sleep", "1000"])
    async with world(cgroupRoot=str(cgroup_root), reservedCPUs=str(first)) as here:
        environment = await here.pod("a", cpus(1))
        uid = (await here.cluster.get("Pod", "a"))["metadata"]["uid"]
        # A shell drops the variable of the claim: what the container was created with counts.
        claiming = runc.start(uid, "claiming", ["sh", "-c", "exec sleep 1000"], environment)

        async def apart():
            return allowed_cpus(claiming) == {second} and allowed_cpus(other) == {first}

        await here.cluster.eventually(apart)
        await here.stop_driver()
        await here.start_driver()
        restarted = runc.start(uid, "restarted", ["sh", "-c", "exec sleep 1000"], environment)

        async def pinned_again():
            return allowed_cpus(restarted) == allowed_cpus(claiming) == {second}

        await here.cluster.eventually(pinned_again)
        runc.delete("claiming")
        runc.delete("restarted")
        await here.kubelet.end_pod("a")

        async def given_back():
            return allowed_cpus(other) == set(two_cpus)

        await here.cluster.eventually(given_back)
