"""Claims that are shared, overlap, skip calls or have shares: the SDK on one side, the kubelet double on the other."""

import asyncio

import pytest

from dray.driver import Health, Pool
from dray.driver.health import DeviceHealth
from dray.node.errors import PrepareError
from dray.testing.objects import container, first_available, request, subrequest
from tests.node.clusters import NODE, bound_pod

from .gpu_driver import DRIVER, GpuDriver
from .stage import nothing_left, one, result, slices, stage


async def test_admin_access_overlaps_with_others_and_touches_nothing():
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "user", one("c"))
        await kubelet.start_pod("user")
        before = (driver.hardware / "gpu-0").read_text()
        admin = "admins"
        await cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": admin, "labels": {"resource.kubernetes.io/admin-access": "true"}},
            }
        )
        claim = "watch", [result("gpu-0", adminAccess=True)], request(adminAccess=True)
        await bound_pod(cluster, "admin", claim, namespace=admin)
        assert await kubelet.start_pod("admin", namespace=admin)
        assert (driver.hardware / "gpu-0").read_text() == before
        await kubelet.end_pod("admin", namespace=admin)
        assert driver.in_use == ["gpu-0"]
        await kubelet.end_pod("user")
        assert nothing_left(kubelet, driver)


async def test_a_claim_shared_by_two_pods_is_prepared_once_and_unprepared_with_the_last():
    async with stage() as (cluster, kubelet, driver):
        for name, claim in (("a", one("shared")), ("b", "shared")):
            await bound_pod(cluster, name, claim)
        first, second = [await kubelet.start_pod(name) for name in "ab"]
        assert first.cdi_ids == second.cdi_ids
        await kubelet.end_pod("a")
        assert driver.in_use == ["gpu-0"]
        await kubelet.end_pod("b")
        assert driver.asked == ["prepare shared", "unprepare shared"]
        assert nothing_left(kubelet, driver)


async def test_a_device_that_another_claim_still_holds_is_not_handed_out():
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "old", one("first"))
        await bound_pod(cluster, "new", one("second"))
        await kubelet.start_pod("old")
        with pytest.raises(PrepareError, match=r"gpu-0 is still prepared for ResourceClaim default/first"):
            await kubelet.try_pod("new")
        await kubelet.end_pod("old")
        await kubelet.start_pod("new")
        await kubelet.end_pod("new")
        assert nothing_left(kubelet, driver)


async def test_pools_that_skip_node_operations_need_no_driver_on_the_node():
    class Accounting(GpuDriver):
        async def pools(self):
            return [Pool(NODE, devices=await self.devices(), skip_node_operations=("*",))]

    async with stage(lambda kubelet: Accounting(kubelet.root / "hardware")) as (cluster, kubelet, driver):
        await kubelet.eventually(lambda: slices(cluster), "slices")
        [published] = await cluster.list("ResourceSlice")
        skipped = published["spec"]["skipNodeOperations"]
        await bound_pod(cluster, "p", one("c", skipNodeOperations=skipped))
        await kubelet.start_pod("p")
        await kubelet.end_pod("p")
        assert driver.asked == []


async def test_alternatives_are_answered_under_the_name_of_their_request():
    async with stage() as (cluster, kubelet, _):
        wanted = first_available("gpu", subrequest("large"), subrequest("small"))
        other = request("other")
        results = [result("gpu-0", "gpu/small"), result("gpu-1", "other")]
        uses = [container("main", resources={"claims": [{"name": "claim-0", "request": "gpu"}]})]
        await bound_pod(cluster, "p", ("c", results, wanted, other), containers=uses)
        assert list((await kubelet.start_pod("p")).env()) == ["GPU_0"]


async def test_shares_of_one_device_are_told_apart():
    shares = ["11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"]
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "a", one("first", shareID=shares[0]))
        await bound_pod(cluster, "b", one("second", shareID=shares[1]))
        started = [await kubelet.start_pod("a"), await kubelet.start_pod("b")]
        assert started[0].cdi_ids != started[1].cdi_ids
        assert driver.in_use == [f"gpu-0{each}" for each in shares]
        found = {device.share_id for info in kubelet.node.manager.cache for _, device in info.devices}
        assert found == set(shares)
        await kubelet.end_pod("a")
        assert driver.in_use == [f"gpu-0{shares[1]}"]
        await kubelet.end_pod("b")
        assert nothing_left(kubelet, driver)


async def test_two_shares_of_one_device_in_one_claim():
    shares = ["11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"]
    async with stage() as (cluster, kubelet, driver):
        results = [result("gpu-0", "a", shareID=shares[0]), result("gpu-0", "b", shareID=shares[1])]
        await bound_pod(cluster, "p", ("c", results, request("a"), request("b")))
        assert len(set((await kubelet.start_pod("p")).cdi_ids["main"])) == 2
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_a_driver_that_serves_v1beta1_alone():
    async with stage(services=("v1beta1.DRAPlugin",)) as (cluster, kubelet, driver):
        assert kubelet.node.plugins.client(DRIVER).version == "v1beta1.DRAPlugin"
        await bound_pod(cluster, "p", one("c"))
        assert (await kubelet.start_pod("p")).env()
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


class Reporting(GpuDriver):
    """Reports what the queue holds, in one long stream."""

    def __init__(self, hardware):
        super().__init__(hardware)
        self.reports = asyncio.Queue()

    async def health(self):
        while (report := await self.reports.get()) is not None:
            yield [DeviceHealth(NODE, "gpu-0", report, "as told", timeout=1)]


async def test_health_taints_the_device_shows_in_the_pod_and_times_out_to_unknown():
    async with stage(lambda kubelet: Reporting(kubelet.root / "hardware")) as (cluster, kubelet, driver):
        await bound_pod(cluster, "p", one("c"))
        await kubelet.start_pod("p")

        async def health():
            [status] = (await kubelet.report_pod("p"))["status"]["containerStatuses"]
            return status["allocatedResourcesStatus"][0]["resources"][0]["health"]

        async def taints():
            found = [each for slice_ in await cluster.list("ResourceSlice") for each in slice_["spec"]["devices"]]
            return {each["name"]: [taint["key"] for taint in each.get("taints") or ()] for each in found}

        async def is_now(wanted, tainted):
            async def holds():
                return await health() == wanted and bool((await taints()).get("gpu-0")) == tainted

            await kubelet.eventually(holds, f"{wanted}, tainted: {tainted}")

        driver.reports.put_nowait(Health.HEALTHY)
        await is_now("Healthy", False)
        driver.reports.put_nowait(Health.UNHEALTHY)
        await is_now("Unhealthy", True)
        assert (await taints())["gpu-1"] == []
        driver.reports.put_nowait(Health.HEALTHY)
        await is_now("Healthy", False)
        # The generator ends: nothing is repeated, and after its timeout the report no longer holds.
        driver.reports.put_nowait(None)
        await is_now("Unknown", False)
