"""Calls that fail, hang, are lost or answered wrongly: the SDK on one side, the kubelet double on the other."""

import asyncio
import json

import pytest

from dray.driver import ClaimReference
from dray.node.errors import PrepareError, UnprepareError
from dray.node.registration_client import RegistrationClient
from dray.node.timing import Timing
from dray.testing.kubelet.faults import answer_for_another_claim, deadline, during, lost_answer, skipped_claim
from tests.node.clusters import bound_pod

from .gpu_driver import DRIVER
from .stage import nothing_left, one, result, stage


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
        [event] = [each for each in await cluster.list("Event") if each["type"] == "Warning"]
        assert event["reason"] == "FailedPrepareDynamicResources"
        assert event["involvedObject"]["name"] == "p"
        assert "gpu-1 is broken" in event["message"]
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


async def prepare_too_long(cluster, kubelet, driver):
    """The driver hangs in the prepare of a pod's claim until its gate opens; the kubelet has given up."""
    driver.gate = asyncio.Event()
    await bound_pod(cluster, "p", one("c"))
    kubelet.faults.next_prepare(deadline(0.2))
    with pytest.raises(PrepareError, match="DEADLINE_EXCEEDED"):
        await kubelet.try_pod("p")


async def test_a_prepare_that_hangs_past_the_deadline_is_tried_again():
    async with stage() as (cluster, kubelet, driver):
        await prepare_too_long(cluster, kubelet, driver)
        assert list(kubelet.cdi.iterdir()) == []
        driver.gate.set()
        await kubelet.start_pod("p")
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_a_pod_can_end_while_its_prepare_hangs():
    async with stage() as (cluster, kubelet, driver):
        await prepare_too_long(cluster, kubelet, driver)
        await kubelet.end_pod("p")
        assert nothing_left(kubelet, driver)


async def test_a_stale_prepare_that_finishes_after_unprepare_leaves_nothing_behind():
    async with stage() as (cluster, kubelet, driver):
        driver.stubborn = True
        await prepare_too_long(cluster, kubelet, driver)
        # The driver still has its hands on the device and does not listen: unprepare waits for it.
        kubelet.faults.next_unprepare(deadline(0.2))
        with pytest.raises(UnprepareError, match="DEADLINE_EXCEEDED"):
            await kubelet.try_end("p")
        driver.gate.set()
        await kubelet.end_pod("p")

        async def clean():
            return nothing_left(kubelet, driver)

        await kubelet.eventually(clean, "nothing is left")


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
