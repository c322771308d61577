"""The driver behind a kubelet: claims allocated by the scheduler, hooks run by dray's process runtime, and what a
container sees."""

import json
from contextlib import asynccontextmanager

import msgspec
import pytest

from dray.driver import RunnerOptions
from dray.driver.runner import DriverRunner
from dray.drivers.nic.driver import NicDriver
from dray.drivers.nic.options import NicOptions
from dray.node.cdi import resolve
from dray.node.errors import NodeError
from dray.node.runtimes.configs import ContainerConfig, SandboxConfig
from dray.node.runtimes.interface import StartError
from dray.node.runtimes.process import ProcessRuntime
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import claim, device_class, node, pod, request
from tests.drivers.nic.networks import interfaces, make_interface, seen
from tests.drivers.nic.trees import SysfsTree

NODE = "worker"


def nic(name="nic0"):
    selector = f'device.attributes["dra.net"].ifName == "{name}"'
    return request(f"of-{name}", deviceClassName="dra.net", selectors=[selector])


def config(*requests, **parameters):
    return [{"requests": list(requests), "opaque": {"driver": "dra.net", "parameters": parameters}}]


class World:
    """A cluster with one node, its kubelet, a runtime and the driver under test."""

    def __init__(self, cluster, kubelet, settings, directory):
        self.cluster = cluster
        self.kubelet = kubelet
        self._settings = settings
        self.directory = directory
        self.runtime = ProcessRuntime(directory / "run", cdi_directories=[kubelet.cdi])
        self.runner = None

    async def start_driver(self):
        options = msgspec.convert(self._settings, NicOptions)
        place = RunnerOptions(node_name=NODE, kubelet_root=self.kubelet.root, cdi_directory=self.kubelet.cdi)
        self.runner = DriverRunner(NicDriver(options), self.cluster.client, place)
        await self.runner.__aenter__()
        await self.kubelet.registered("dra.net")

    async def stop_driver(self):
        await self.runner.__aexit__(None, None, None)

    async def devices(self):
        slices = await self.cluster.list("ResourceSlice")
        return {each["name"]: each for one in slices for each in one["spec"].get("devices", ())}

    async def offers(self, *names):
        async def holds():
            return set(names) <= set(await self.devices())

        await self.kubelet.eventually(holds, f"{names} are published")

    async def place(self, name, *requests, config=None, **members):
        await self.cluster.create(claim(name, *requests, config=config))
        await self.cluster.create(pod(name, claims=[name], **members))

        async def bound():
            return (await self.cluster.get("Pod", name))["spec"].get("nodeName")

        await self.cluster.eventually(bound)

    async def start(self, name, *command, **sandbox):
        """What the command writes, in a container of the pod."""
        started = await self.kubelet.start_pod(name)
        uid, ids = started.pod["metadata"]["uid"], tuple(started.cdi_ids["main"])
        made = SandboxConfig(pod_uid=uid, namespace="default", name=name, cdi_devices=ids, **sandbox)
        self.sandbox = await self.runtime.create_sandbox(made)
        return await self.run(uid, name, command, ids)

    async def run(self, uid, name, command, ids, attempt=0):
        container = ContainerConfig(
            pod_uid=uid,
            namespace="default",
            pod_name=name,
            name="main",
            attempt=attempt,
            image="busybox",
            command=command,
            args=(),
            log_path=self.directory / f"{name}-{attempt}.log",
            cdi_devices=ids,
        )
        await self.runtime.wait((await self.runtime.start(container)).id)
        return "\n".join(line.split(" ", 3)[3] for line in container.log_path.read_text().splitlines())

    async def end(self, name):
        uid = (await self.cluster.get("Pod", name))["metadata"]["uid"]
        await self.kubelet.end_pod(name)
        await self.runtime.stop_sandbox(uid)
        await self.runtime.remove_sandbox(uid)

    async def status(self, name, holds=lambda entries: True):
        async def told():
            status = (await self.cluster.get("ResourceClaim", name)).get("status") or {}
            entries = {each["device"]: each for each in status.get("devices") or ()}
            return entries if entries and holds(entries) else None

        return await self.kubelet.eventually(told, "a status of devices")


@asynccontextmanager
async def world(tmp_path, **settings):
    if not (tmp_path / "sys").exists():
        SysfsTree(tmp_path / "sys")
    given = {
        "excludeTypes": "",
        "excludeInterfaces": "*p",
        "sysfsRoot": str(tmp_path / "sys"),
        "deviceRoot": str(tmp_path / "dev"),
        "stateDirectory": str(tmp_path / "state"),
        **settings,
    }
    objects = [node(NODE, cpu="64"), device_class("dra.net", "device.driver == 'dra.net'")]
    async with (
        LocalCluster(scheduler=Options(), controllers=["resourceclaim"], objects=objects) as cluster,
        KubeletDouble(cluster.client, NODE) as kubelet,
    ):
        made = World(cluster, kubelet, given, tmp_path)
        await made.start_driver()
        try:
            yield made
        finally:
            await made.stop_driver()


async def test_a_pod_sees_its_interface_and_the_host_has_it_back(host_network, tmp_path):
    before = make_interface("nic0")
    async with world(tmp_path) as here:
        wanted = {
            "interface": {"name": "net1", "mtu": 1300, "addresses": ["10.0.0.18/16"]},
            "routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.1"}],
        }
        await here.place("p", nic(), config=config("of-nic0", **wanted))
        output = await here.start("p", "sh", "-c", "ip -j addr; ip -j route; hostname")
        addresses, routes = (json.loads(line) for line in output.splitlines()[:2])
        assert {each["ifname"] for each in addresses} == {"lo", "net1"}
        assert next(each["mtu"] for each in addresses if each["ifname"] == "net1") == 1300
        assert [(each["dst"], each["gateway"], each["dev"]) for each in routes if "gateway" in each] == [
            ("10.0.0.0/8", "10.0.0.1", "net1")
        ]
        assert here.sandbox.ip == "10.0.0.18"
        assert interfaces() == {"nic0p"}
        entry = (await here.status("p"))["nic0"]
        assert entry["networkData"] == {
            "interfaceName": "net1",
            "ips": ["10.0.0.18/16"],
            "hardwareAddress": before["address"],
        }
        ready = {each["type"]: (each["status"], each["reason"]) for each in entry["conditions"]}
        assert ready == {"Ready": ("True", "NetworkDeviceReady"), "NetworkReady": ("True", "NetworkReady")}
        # It is in a pod, and still on this machine.
        assert "nic0" in await here.devices()
        await here.end("p")
        assert seen("nic0") == before
        assert list(here.kubelet.cdi.iterdir()) == []
        assert not list((tmp_path / "state" / "netns").iterdir())


async def test_containers_that_start_anew_and_commands_are_in_the_same_network(host_network, tmp_path):
    make_interface("nic0")
    async with world(tmp_path) as here:
        await here.place("p", nic(), config=config("of-nic0", interface={"name": "net1"}))
        first = await here.start("p", "readlink", "/proc/self/ns/net")
        uid = (await here.cluster.get("Pod", "p"))["metadata"]["uid"]
        again = await here.run(uid, "p", ("readlink", "/proc/self/ns/net"), (), attempt=1)
        # Of another agent, that finds the pod.
        here.runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[tmp_path / "no-cdi"])
        found = await here.runtime.create_sandbox(
            SandboxConfig(pod_uid=uid, namespace="default", name="p", cdi_devices=("k8s.dra.net/claim=x",))
        )
        assert found.network_namespace == here.sandbox.network_namespace
        assert await here.run(uid, "p", ("readlink", "/proc/self/ns/net"), (), attempt=2) == first == again
        await here.end("p")


async def test_a_claim_is_prepared_again_while_its_interface_is_in_the_pod(host_network, tmp_path):
    before = make_interface("nic0")
    async with world(tmp_path) as here:
        await here.place("p", nic(), config=config("of-nic0", interface={"name": "net1"}))
        await here.start("p", "true")
        await here.stop_driver()
        await here.start_driver()
        await here.kubelet.restart()
        await here.kubelet.start_pod("p")
        assert interfaces() == {"nic0p"}
        await here.end("p")
        assert seen("nic0") == before


async def test_two_interfaces_of_one_claim(host_network, tmp_path):
    before = [make_interface("nic0"), make_interface("nic1", number=2)]
    async with world(tmp_path) as here:
        both = config("of-nic0", interface={"name": "a"}) + config("of-nic1", interface={"name": "b"})
        await here.place("p", nic("nic0"), nic("nic1"), config=both)
        output = await here.start("p", "ip", "-j", "link")
        assert {each["ifname"] for each in json.loads(output)} == {"lo", "a", "b"}
        await here.status("p", lambda entries: set(entries) == {"nic0", "nic1"})
        await here.end("p")
        assert [seen("nic0"), seen("nic1")] == before


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"interface": {"name": "net1", "colour": "red"}}, "unknown field `colour`"),
        ({"interface": {"mtu": 20}}, "interface.mtu: 20 is less than 68"),
        ({"ethtool": {"features": {"warp-drive": True}}}, "nic0 has no feature warp-drive"),
        ({"ethtool": {"privateFlags": {"turbo": True}}}, "nic0 has no flag turbo"),
    ],
)
async def test_what_cannot_be_done_is_refused_before_anything_is_changed(host_network, tmp_path, parameters, problem):
    before = make_interface("nic0")
    async with world(tmp_path) as here:
        await here.place("p", nic(), config=config("of-nic0", **parameters))
        with pytest.raises(NodeError, match=problem):
            await here.kubelet.try_pod("p")
        assert seen("nic0") == before


async def test_a_hook_that_fails_is_told_in_the_claim_and_the_interface_stays(host_network, tmp_path):
    before = make_interface("nic0")
    async with world(tmp_path) as here:
        wanted = {"routes": [{"destination": "10.9.0.0/16", "gateway": "192.168.200.1"}]}
        await here.place("p", nic(), config=config("of-nic0", **wanted))
        with pytest.raises(StartError, match=r"route to 10\.9\.0\.0/16: Network is unreachable"):
            await here.start("p", "true")
        assert seen("nic0") == before
        entry = (await here.status("p"))["nic0"]
        (condition,) = entry["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "NetworkDeviceAttachFailed")
        assert "Network is unreachable" in condition["message"]
        await here.end("p")


async def test_a_pod_with_the_network_of_the_host_is_refused(host_network, tmp_path):
    before = make_interface("nic0")
    async with world(tmp_path) as here:
        await here.place("p", nic())
        with pytest.raises(StartError, match="hostNetwork"):
            await here.start("p", "true", host_network=True)
        assert seen("nic0") == before
        await here.end("p")


async def test_one_name_for_two_interfaces_is_refused(host_network, tmp_path):
    make_interface("nic0")
    make_interface("nic1", number=2)
    async with world(tmp_path) as here:
        same = config("of-nic0", "of-nic1", interface={"name": "net1"})
        await here.place("p", nic("nic0"), nic("nic1"), config=same)
        with pytest.raises(NodeError, match=r"interface\.name net1 is for 2 devices of the claim"):
            await here.kubelet.try_pod("p")


async def test_interfaces_that_come_and_go_are_published_at_once(host_network, tmp_path):
    async with world(tmp_path) as here:
        make_interface("nic0")
        await here.offers("nic0")


async def test_rdma_devices_without_interface_are_given_as_device_files(host_network, tmp_path):
    tree = SysfsTree(tmp_path / "sys")
    efa = tree.function("0000:44:00.0", vendor="0x1d0f", device="0xefa2", driver="efa")
    tree.rdma(efa, "rdmap68s0", 3)
    files = tmp_path / "dev/infiniband"
    files.mkdir(parents=True)
    for name in ("rdma_cm", "uverbs3", "umad3", "uverbs4"):
        (files / name).touch()
    rdma = request("efa", deviceClassName="dra.net", selectors=['device.attributes["dra.net"].rdma'])
    async with world(tmp_path) as here:
        await here.place("p", rdma)
        started = await here.kubelet.start_pod("p")
        nodes = resolve(started.cdi_ids["main"], [here.kubelet.cdi]).device_nodes
        assert {each.path for each in nodes} == {f"/dev/infiniband/{name}" for name in ("rdma_cm", "uverbs3", "umad3")}
        entry = (await here.status("p"))["pci-0000-44-00-0"]
        assert [each["reason"] for each in entry["conditions"]] == ["RDMAOnlyDeviceReady"]
        await here.end("p")
        await here.place("q", rdma, config=config("efa", interface={"name": "net1"}))
        with pytest.raises(NodeError, match="it has no interface, and the claim has a configuration for one"):
            await here.kubelet.try_pod("q")
