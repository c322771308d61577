"""Restarts of driver, kubelet and machine: the SDK on one side, the kubelet double on the other."""

from dataclasses import replace

import pytest

from dray.node.cdi import CdiError
from dray.node.errors import UnprepareError
from dray.testing.kubelet.double import QUICK
from tests.node.clusters import bound_pod, kubelet_on_cluster

from .gpu_driver import COUNT, DRIVER, GpuDriver
from .stage import nothing_left, one, slices, stage


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
    async with kubelet_on_cluster(timing=replace(QUICK, wipe_delay=60)) as (cluster, kubelet):
        old, new = (GpuDriver(kubelet.root / "hardware") for _ in range(2))
        async with kubelet.running(old, pod_uid="11111111-1111-4111-8111-111111111111"):
            await kubelet.registered(DRIVER)
            await bound_pod(cluster, "a", one("first"))
            await bound_pod(cluster, "b", one("second", "gpu-1"))
            await kubelet.start_pod("a")
            running = kubelet.running(new, pod_uid="22222222-2222-4222-8222-222222222222")
            await running.__aenter__()
            await kubelet.registered(DRIVER, instances=2)
            await kubelet.eventually(lambda: slices(cluster))
            before = await slices(cluster)

            async def both_connected():
                return all(each.connected for each in kubelet.node.plugins._instances[DRIVER])

            await kubelet.eventually(both_connected)
            await kubelet.start_pod("b")
            assert len(new.previous) == 1
        await kubelet.registered(DRIVER, instances=1)
        # As long as one instance is connected nobody means to delete the slices.
        assert not kubelet.node._wiper._pending
        assert await slices(cluster) == before
        # What the old instance prepared, the new one undoes.
        await kubelet.end_pod("a")
        await kubelet.end_pod("b")
        assert nothing_left(kubelet, new)
        await running.__aexit__(None, None, None)


async def test_slices_wiped_at_the_start_of_the_kubelet_are_published_again():
    async with stage() as (cluster, kubelet, _):
        await kubelet.eventually(lambda: slices(cluster), "slices")
        first = await slices(cluster)
        await kubelet.restart()

        async def renewed():
            found = await slices(cluster)
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
