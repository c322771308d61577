"""The hardest cases of a driver's life, each with the SDK on one side and the kubelet double on the other."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from dray.driver import ClaimReference, Health, Pool
from dray.driver.health import DeviceHealth
from dray.node.cdi import CdiError
from dray.node.errors import PrepareError, UnprepareError
from dray.node.registration_client import RegistrationClient
from dray.node.timing import Timing
from dray.testing.kubelet.double import QUICK
from dray.testing.kubelet.faults import answer_for_another_claim, deadline, during, lost_answer, skipped_claim
from dray.testing.objects import container, first_available, request, subrequest
from tests.node.clusters import NODE, bound_pod, kubelet_on_cluster

from .gpu_driver import COUNT, DRIVER, GpuDriver


@asynccontextmanager
async def stage(driver=None, *, kubelet_options=None, **options):
    """A cluster, a kubelet and a driver that is registered."""
    async with kubelet_on_cluster(**(kubelet_options or {})) as (cluster, kubelet):
        driver = driver(kubelet) if driver else GpuDriver(kubelet.root / "hardware")
        async with kubelet.running(driver, **options):
            await kubelet.registered(DRIVER)
            yield cluster, kubelet, driver
            assert "twice" not in "".join(driver.asked)


def result(device, name="gpu", **members):
    return {"request": name, "driver": DRIVER, "pool": NODE, "device": device, **members}


def one(name, device="gpu-0", **members):
    """A claim with one device."""
    return name, [result(device, **members)]


def nothing_left(kubelet, driver):
    """No half of anything: no device, no CDI file, no record of the driver, nothing at the kubelet."""
    records = [path.name for path in (kubelet.root / "plugins" / DRIVER / "claims").iterdir()]
    files = [path.name for path in kubelet.cdi.iterdir()]
    return (driver.in_use, files, records, kubelet.prepared_claims) == ([], [], [], {})


async def test_prepare_after_a_restart_of_the_driver_gives_the_same_answer():
    async with kubelet_on_cluster() as (cluster, kubelet):
        await bound_pod(cluster, "a", one("c"))
        driver = GpuDriver(kubelet.root / "hardware")
        async with kubelet.running(driver):
            first = await kubelet.start_pod("a")
        await kubelet.restart()
        again = GpuDriver(kubelet.root / "hardware")
        async with kubelet.running(again):
            await kubelet.registered(DRIVER)
            second = await kubelet.start_pod("a")
            assert second.cdi_ids == first.cdi_ids
            assert second.env() == first.env()
            [previous] = again.previous
            assert previous.is_complete
            assert previous.state == {"devices": ["gpu-0"]}
            await kubelet.end_pod("a")
            assert nothing_left(kubelet, again)


async def test_an_empty_cdi_directory_after_a_reboot_is_filled_again():
    async with kubelet_on_cluster() as (cluster, kubelet):
        boot = kubelet.root / "boot_id"
        boot.write_text("first")
        await bound_pod(cluster, "p", one("c"))
        async with kubelet.running(GpuDriver(kubelet.root / "hardware"), boot_id_file=boot):
            before = await kubelet.start_pod("p")
        for path in [*kubelet.cdi.iterdir(), *(kubelet.root / "hardware").iterdir()]:
            path.unlink()
        boot.write_text("second")
        await kubelet.restart()
        driver = GpuDriver(kubelet.root / "hardware")
        async with kubelet.running(driver, boot_id_file=boot):
            await kubelet.registered(DRIVER)
            after = await kubelet.start_pod("p")
            assert after.cdi_ids == before.cdi_ids
            assert driver.in_use == ["gpu-0"]
            assert not driver.previous[0].is_complete
            await kubelet.end_pod("p")
            assert nothing_left(kubelet, driver)


async def test_a_cdi_file_that_somebody_removed_comes_back_with_the_next_prepare():
    async with stage() as (cluster, kubelet, _):
        await bound_pod(cluster, "p", one("c"))
        await kubelet.start_pod("p")
        for path in kubelet.cdi.iterdir():
            path.unlink()
        # The kubelet knows the claim as prepared and asks nobody: the runtime cannot make the container.
        with pytest.raises(CdiError):
            await kubelet.try_pod("p")
        await kubelet.restart()
        assert (await kubelet.start_pod("p")).env()


async def test_a_driver_gone_while_a_pod_terminates_finishes_when_it_is_back():
    async with kubelet_on_cluster() as (cluster, kubelet):
        await bound_pod(cluster, "p", one("c"))
        async with kubelet.running(GpuDriver(kubelet.root / "hardware")):
            await kubelet.start_pod("p")
        await kubelet.deregistered(DRIVER)
        with pytest.raises(UnprepareError, match="is not registered"):
            await kubelet.try_end("p")
        # By then the claim may be gone: everything that is needed is in the driver's record.
        await cluster.delete("ResourceClaim", "c")
        driver = GpuDriver(kubelet.root / "hardware")
        async with kubelet.running(driver):
            await kubelet.end_pod("p")
            assert nothing_left(kubelet, driver)


async def test_two_sockets_in_a_rolling_update_hand_over_without_a_gap():
    timing = replace(QUICK, wipe_delay=0.2)
    async with kubelet_on_cluster(timing=timing) as (cluster, kubelet):
        old, new = (GpuDriver(kubelet.root / "hardware") for _ in range(2))
        async with kubelet.running(old, pod_uid="11111111-1111-4111-8111-111111111111"):
            await kubelet.registered(DRIVER)
            await bound_pod(cluster, "a", one("first"))
            await bound_pod(cluster, "b", one("second", "gpu-1"))
            await kubelet.start_pod("a")
            running = kubelet.running(new, pod_uid="22222222-2222-4222-8222-222222222222")
            await running.__aenter__()
            await kubelet.registered(DRIVER, instances=2)
            await kubelet.eventually(lambda: _slices(cluster))
            before = await _slices(cluster)

            async def both_connected():
                return all(each.connected for each in kubelet.node.plugins._instances[DRIVER])

            await kubelet.eventually(both_connected)
            await kubelet.start_pod("b")
            assert len(new.previous) == 1
        await kubelet.registered(DRIVER, instances=1)
        await asyncio.sleep(2 * timing.wipe_delay)
        assert await _slices(cluster) == before
        # What the old instance prepared, the new one undoes.
        await kubelet.end_pod("a")
        await kubelet.end_pod("b")
        assert nothing_left(kubelet, new)
        await running.__aexit__(None, None, None)


async def _slices(cluster):
    return sorted(each["metadata"]["uid"] for each in await cluster.list("ResourceSlice"))


async def test_a_claim_whose_uid_changed_is_refused():
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "p", one("c"))
        stale = ClaimReference("default", "c", "00000000-0000-4000-8000-000000000000")
        answers = await kubelet.node.plugins.client(DRIVER).prepare([stale])
        assert "got replaced" in answers[stale.uid].error
        assert driver.asked == []
        await kubelet.start_pod("p")


async def test_a_partial_failure_prepares_what_can_be_and_ends_clean():
    async with stage() as (cluster, kubelet, driver):
        driver.broken = {"gpu-1"}
        await bound_pod(cluster, "p", one("good"), one("bad", "gpu-1"))
        with pytest.raises(PrepareError, match=r"default/bad .*gpu-1 is broken"):
            await kubelet.try_pod("p")
        assert driver.in_use == ["gpu-0"]
        driver.broken.clear()
        assert len((await kubelet.start_pod("p")).cdi_ids["main"]) == 2
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_a_pod_whose_prepare_never_succeeded_can_end():
    async with stage() as (cluster, kubelet, driver):
        driver.broken = {"gpu-1"}
        await bound_pod(cluster, "p", ("both", [result("gpu-0"), result("gpu-1")]))
        with pytest.raises(PrepareError, match="is broken"):
            await kubelet.try_pod("p")
        assert driver.in_use == ["gpu-0"]
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_unprepare_of_an_unknown_claim_succeeds():
    async with stage() as (_, kubelet, driver):
        unknown = ClaimReference("default", "never-seen", "33333333-3333-4333-8333-333333333333")
        assert await kubelet.node.plugins.client(DRIVER).unprepare([unknown]) == {unknown.uid: ""}
        assert driver.asked == []


async def test_slices_wiped_at_the_start_of_the_kubelet_are_published_again():
    async with stage() as (cluster, kubelet, _):
        await kubelet.eventually(lambda: _slices(cluster), "slices")
        first = await _slices(cluster)
        await kubelet.restart()

        async def renewed():
            found = await _slices(cluster)
            return found and found != first

        await kubelet.eventually(renewed, "slices that were made anew")
        [published] = await cluster.list("ResourceSlice")
        assert len(published["spec"]["devices"]) == COUNT


async def test_a_kubelet_that_restarts_with_prepared_claims_asks_nobody_and_unprepares_in_the_end():
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "p", one("c"))
        await kubelet.start_pod("p")
        await kubelet.restart()
        await kubelet.registered(DRIVER)
        assert driver.asked == ["prepare c"]
        await kubelet.end_pod("p")
        assert driver.asked == ["prepare c", "unprepare c"]
        assert nothing_left(kubelet, driver)


@pytest.mark.parametrize(
    "fault", [answer_for_another_claim(), skipped_claim(), lost_answer()], ids=["unknown uid", "skipped", "lost"]
)
async def test_an_answer_that_went_wrong_is_asked_for_again_and_the_same(fault):
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "p", one("c"))
        kubelet.faults.next_prepare(fault)
        with pytest.raises(PrepareError):
            await kubelet.try_pod("p")
        started = await kubelet.start_pod("p")
        assert driver.asked == ["prepare c", "prepare c"]
        assert len(started.cdi_ids["main"]) == len(list(kubelet.cdi.iterdir())) == 1
        kubelet.faults.next_unprepare(fault)
        with pytest.raises(UnprepareError):
            await kubelet.try_end("p")
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_a_prepare_that_hangs_past_the_deadline_is_tried_again():
    async with stage() as (cluster, kubelet, driver):
        driver.gate = asyncio.Event()
        await bound_pod(cluster, "p", one("c"))
        kubelet.faults.next_prepare(deadline(0.2))
        with pytest.raises(PrepareError, match="DEADLINE_EXCEEDED"):
            await kubelet.try_pod("p")
        assert list(kubelet.cdi.iterdir()) == []
        driver.gate.set()
        await kubelet.start_pod("p")
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_a_pod_can_end_while_its_prepare_hangs():
    async with stage() as (cluster, kubelet, driver):
        driver.gate = asyncio.Event()
        await bound_pod(cluster, "p", one("c"))
        kubelet.faults.next_prepare(deadline(0.2))
        with pytest.raises(PrepareError):
            await kubelet.try_pod("p")
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_a_stale_prepare_that_finishes_after_unprepare_leaves_nothing_behind():
    async with stage() as (cluster, kubelet, driver):
        driver.gate, driver.stubborn = asyncio.Event(), True
        await bound_pod(cluster, "p", one("c"))
        kubelet.faults.next_prepare(deadline(0.2))
        with pytest.raises(PrepareError):
            await kubelet.try_pod("p")
        # The driver still has its hands on the device and does not listen: unprepare waits for it.
        kubelet.faults.next_unprepare(deadline(0.2))
        with pytest.raises(UnprepareError, match="DEADLINE_EXCEEDED"):
            await kubelet.try_end("p")
        driver.gate.set()
        await kubelet.end_pod("p")

        async def clean():
            return nothing_left(kubelet, driver)

        await kubelet.eventually(clean, "nothing is left")


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
        await bound_pod(cluster, "a", one("shared"))
        await bound_pod(cluster, "b", "shared")
        first, second = await kubelet.start_pod("a"), await kubelet.start_pod("b")
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
        with pytest.raises(PrepareError, match=r"gpu-0 is still prepared for claim default/first"):
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
        await kubelet.eventually(lambda: _slices(cluster), "slices")
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


async def test_claims_of_pods_deleted_while_the_kubelet_was_away_are_unprepared():
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "p", one("c"))
        await kubelet.start_pod("p")
        await kubelet.stop()
        await cluster.delete("Pod", "p")
        await kubelet.start()

        async def clean():
            return nothing_left(kubelet, driver)

        await kubelet.eventually(clean, "nothing is left")


async def test_a_force_deleted_pod_frees_its_devices_with_the_kubelets_next_look():
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "p", one("c"))
        await kubelet.start_pod("p")
        await cluster.delete("Pod", "p", grace=0)

        async def clean():
            return nothing_left(kubelet, driver)

        await kubelet.eventually(clean, "nothing is left")


async def test_a_registration_socket_that_vanishes_is_made_again():
    async with stage() as (cluster, kubelet, driver):
        for socket in kubelet.registry.iterdir():
            socket.unlink()
        await kubelet.deregistered(DRIVER)
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", one("c"))
        await kubelet.start_pod("p")
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_registration_is_answered_while_a_prepare_is_running():
    async with stage() as (cluster, kubelet, driver):
        driver.gate = asyncio.Event()
        await bound_pod(cluster, "p", one("c"))

        infos = []

        async def ask():
            # With the limit of a kubelet, one second.
            async with RegistrationClient(next(kubelet.registry.iterdir()), Timing()) as client:
                infos.append(await client.info())
            driver.gate.set()

        kubelet.faults.next_prepare(during(ask, after=0.1))
        await kubelet.try_pod("p")
        assert [each.name for each in infos] == [DRIVER]


async def test_a_driver_that_is_deregistered_in_the_midst_of_a_prepare_is_asked_again():
    async with stage() as (cluster, kubelet, driver):
        driver.gate = asyncio.Event()
        await bound_pod(cluster, "p", one("c"))
        kubelet.faults.next_prepare(during(next(kubelet.registry.iterdir()).unlink, after=0.1))
        with pytest.raises(PrepareError, match="CANCELLED"):
            await kubelet.try_pod("p")
        driver.gate.set()
        await kubelet.start_pod("p")
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_a_record_of_the_driver_that_is_corrupt_fails_its_claim_alone():
    async with stage() as (cluster, kubelet, driver):
        await bound_pod(cluster, "p", one("c"))
        await bound_pod(cluster, "q", one("d", "gpu-1"))
        await kubelet.start_pod("p")
        [record] = (kubelet.root / "plugins" / DRIVER / "claims").iterdir()
        content = json.loads(record.read_text())
        content["v1"]["checksum"] += 1
        good = record.read_text()
        record.write_text(json.dumps(content))
        await kubelet.start_pod("q")
        with pytest.raises(UnprepareError, match="cannot be read"):
            await kubelet.try_end("p")
        record.write_text(good)
        await kubelet.end_pod("p")
        await kubelet.end_pod("q")
        assert nothing_left(kubelet, driver)
