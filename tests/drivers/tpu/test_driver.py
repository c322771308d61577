"""The driver behind a kubelet: claims allocated by the scheduler, prepared over gRPC, and seen from inside."""

from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner

from dray.cli import main
from dray.driver import DriverContext, DriverError
from dray.drivers.devices.classes import device_classes
from dray.drivers.registry import setting_names
from dray.drivers.tpu.driver import TpuDriver
from dray.drivers.tpu.options import TpuOptions, TpuSlicesOptions
from dray.node.cdi import resolve
from dray.node.errors import PrepareError
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import claim, node, pod, request

from .hosts import put, write_host

NODE = "worker"
TPU, SLICE = "tpu.google.com", "slice.tpu.google.com"
ROOT = Path(__file__).parents[3]


class World:
    def __init__(self, cluster, kubelet):
        self.cluster = cluster
        self.kubelet = kubelet

    async def place(self, name, *requests):
        await self.cluster.create(claim(name, *requests))
        await self.cluster.create(pod(name, claims=[name]))

        async def bound():
            return (await self.cluster.get("Pod", name))["spec"].get("nodeName")

        await self.cluster.eventually(bound)

    async def edits(self, name, *requests):
        await self.place(name, *requests)
        started = await self.kubelet.start_pod(name)
        return resolve(started.cdi_ids["main"], [self.kubelet.cdi])

    async def devices(self):
        slices = await self.cluster.list("ResourceSlice")
        return {each["name"]: each for slice_ in slices for each in slice_["spec"].get("devices", ())}


@asynccontextmanager
async def world(settings, labels=None):
    objects = [node(NODE, cpu="64", labels=labels or {}), *device_classes([TPU])]
    async with (
        LocalCluster(scheduler=Options(), controllers=["resourceclaim"], objects=objects) as cluster,
        KubeletDouble(cluster.client, NODE) as kubelet,
        kubelet.running(made(settings)),
    ):
        await kubelet.registered(TPU)
        yield World(cluster, kubelet)


def made(settings, **more):
    return TpuDriver(msgspec.convert({**settings, **more}, TpuOptions))


def chips(count=None, **members):
    mode = {"count": count} if count else {"allocationMode": "All"}
    return request("tpu", deviceClassName=TPU, **mode, **members)


async def test_a_claim_takes_all_chips_with_their_files_and_variables(tmp_path):
    labels = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "2x2"}
    async with world(write_host(tmp_path, chips=4), labels) as here:
        edits = await here.edits("p", chips())
        devices = await here.devices()
        assert devices["2"]["attributes"]["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:01"}
        assert len({each["attributes"]["uuid"]["string"] for each in devices.values()}) == 4
        assert {each.path: each.host_path for each in edits.device_nodes} == {
            f"/dev/vfio/{each}": str(tmp_path / "dev" / "vfio" / each) for each in ("0", "1", "2", "3", "vfio")
        }
        uid = (await here.cluster.get("ResourceClaim", "p"))["metadata"]["uid"]
        told = {
            "TPU_ACCELERATOR_TYPE": "v6e-4",
            "TPU_TOPOLOGY": "2x2",
            "TPU_WORKER_ID": "0",
            "KUBERNETES_NODE_NAME": NODE,
            "TPU_DEVICE_3_RESOURCE_CLAIM": uid,
            "WORKLOAD_NIC_PREFERRED_NUMA": "0,1",
        }
        assert told.items() <= edits.environment.items()
        assert [each.container_path for each in edits.mounts] == ["/tmp/tpu_logs"]


async def test_part_of_the_chips_is_refused_unless_there_are_partitions(tmp_path):
    async with world(write_host(tmp_path, chips=4)) as here:
        await here.place("half", chips(count=2))
        with pytest.raises(PrepareError, match=r"has 2 of 4 chips.*allocationMode: All"):
            await here.kubelet.try_pod("half")


async def test_a_log_directory_that_leads_elsewhere_is_not_mounted(tmp_path):
    settings = write_host(tmp_path, chips=4)
    Path(settings["logDirectory"]).symlink_to(tmp_path)
    async with world(settings) as here:
        await here.place("all", chips())
        with pytest.raises(PrepareError, match=r"logs is a link, or of another user: remove it, or set logDirectory"):
            await here.kubelet.try_pod("all")


async def test_partitions_fill_a_machine_and_exclude_each_other(tmp_path):
    settings = {**write_host(tmp_path, chips=8), "mode": "partitions"}
    four = request("tpu", deviceClassName=SLICE, selectors=[f"device.attributes['{TPU}'].topology == '2x2'"])
    async with world(settings) as here:
        first = await here.edits("first", four)
        second = await here.edits("second", four)
        assert first.environment["TPU_VISIBLE_CHIPS"] == "0,1,2,3"
        assert second.environment["TPU_VISIBLE_CHIPS"] == "4,5,6,7"
        assert [each.path for each in second.device_nodes] == [
            f"/dev/vfio/{each}" for each in ("4", "5", "6", "7", "vfio")
        ]
        await here.kubelet.end_pod("second")
        await here.cluster.delete("Pod", "second")
        await here.cluster.delete("ResourceClaim", "second")
        one = await here.edits("one", chips(count=1))
        assert one.environment["TPU_VISIBLE_CHIPS"] == "4"
        assert one.environment["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "1,1,1"
        # Of what is left, three chips make no block: 5, and 6 with 7.
        await here.place("three", chips(count=3))
        with pytest.raises(PrepareError, match=r"chips 5, 6, 7 are not a block"):
            await here.kubelet.try_pod("three")


async def test_a_chip_whose_file_has_gone_is_unhealthy_and_not_prepared(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.drivers.tpu.driver._HEALTH", 0.05)
    async with world(write_host(tmp_path, chips=1)) as here:
        await here.place("p", chips())
        file = tmp_path / "dev" / "vfio" / "0"
        file.unlink()

        async def taints():
            return [each["effect"] for each in (await here.devices())["0"].get("taints", ())]

        await here.kubelet.eventually(lambda: has(taints(), ["NoSchedule"]))
        with pytest.raises(PrepareError, match="/dev/vfio/0 is not there"):
            await here.kubelet.try_pod("p")
        put(file, "")
        await here.kubelet.eventually(lambda: has(taints(), []))
        await here.kubelet.start_pod("p")


async def has(coroutine, expected):
    return await coroutine == expected


async def described(settings, **more):
    """The attributes of the first chip, without a cluster to ask."""
    driver = made(settings, **more)
    async with LocalCluster() as cluster:
        driver.context = DriverContext(NODE, Path("/nonexistent"), cluster.client, lambda: None)
        [pool] = await driver.pools()
        return pool.all_devices()[0].attributes


async def test_the_file_tpu_env_tells_accelerator_and_topology(tmp_path):
    settings = write_host(tmp_path, chips=4)
    put(tmp_path / "tpu-env", "ACCELERATOR_TYPE: 'v6e-16'\nTOPOLOGY: '4x4'\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\n")
    attributes = await described(settings)
    assert (attributes["accelerator"], attributes["topology"]) == ("tpu-v6e-slice", "4x4")
    assert (await described(settings, topology="8x8"))["topology"] == "8x8"
    with pytest.raises(DriverError, match="is part of a slice 4x4"):
        await described(settings, mode="partitions")


async def test_settings_come_first_and_pci_last(tmp_path):
    settings = write_host(tmp_path, "v5e", chips=8)
    attributes = await described(settings)
    assert (attributes["accelerator"], attributes["topology"]) == ("tpu-v5-lite-podslice", "2x4")
    assert (await described(settings, accelerator="tpu-v5-lite-device"))["tpuGen"] == "v5lite"
    with pytest.raises(DriverError, match="accelerator 'v9'"):
        await described(settings, accelerator="v9")


async def test_a_node_that_cannot_be_read_is_waited_for(tmp_path):
    """Its labels may say that the machine is part of a slice."""
    driver = made(write_host(tmp_path, chips=4))
    async with LocalCluster() as cluster:
        driver.context = DriverContext(NODE, Path("/nonexistent"), cluster.client, lambda: None)
        await driver.start()
        with pytest.raises(DriverError, match="node worker cannot be read"):
            await driver.pools()
        await cluster.create(node(NODE, labels={"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}))
        assert len((await driver.pools())[0].all_devices()) == 4


async def test_a_number_of_chips_that_is_not_there_is_told(tmp_path):
    settings = write_host(tmp_path, chips=2)
    put(tmp_path / "tpu-env", "TYPE: V6E\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\n")
    with pytest.raises(DriverError, match="the machine has 4 chips, and 2 have device files"):
        await described(settings)


@pytest.mark.parametrize("has_labels", [True, False])
async def test_machines_of_google_cloud_ask_the_metadata_server(tmp_path, has_labels):
    async def answer(request):
        assert request.headers["Metadata-Flavor"] == "Google"
        labels = "x=y,cloud.google.com/gke-tpu-accelerator=tpu-v6e-slice,cloud.google.com/gke-tpu-topology=4x4"
        if request.path.endswith("kube-labels"):
            return web.Response(text=labels) if has_labels else web.Response(status=404)
        return web.Response(text="ACCELERATOR_TYPE: 'v6e-16'\nTOPOLOGY: '4x4'\n")

    settings = write_host(tmp_path, chips=4)
    put(tmp_path / "sys" / "class" / "dmi" / "id" / "product_name", "Google Compute Engine")
    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        assert (await described(settings, metadataServer=url))["topology"] == "4x4"
    finally:
        await runner.cleanup()


def run(*arguments):
    return CliRunner().invoke(main, ["driver", *map(str, arguments)])


def test_inspect_prints_chips_or_says_that_there_are_none(tmp_path):
    settings = [part for key, value in write_host(tmp_path, chips=2).items() for part in ("--set", f"{key}={value}")]
    result = run("tpu", "--inspect", "--node-name", "n1", *settings)
    assert result.exit_code == 0
    assert [row.split()[0] for row in result.output.splitlines()] == ["DEVICE", "0", "1"]
    result = run("tpu", "--inspect", "--set", f"sysfsRoot={tmp_path}/none", "--set", f"devRoot={tmp_path}/none")
    assert result.exit_code == 2
    assert result.output.startswith("error: no TPU on this machine: no PCI function of a TPU under")
    assert len(result.output.splitlines()) == 1


def test_all_settings_are_documented():
    page = (ROOT / "docs" / "drivers" / "tpu.md").read_text()
    names = [*setting_names(TpuOptions), *setting_names(TpuSlicesOptions)]
    assert [each for each in names if f"`{each}`" not in page] == []
