"""The DRA manager through the kubelet double: drivers that answer well and badly, claims shared, restarts."""

import asyncio

import pytest

from dray.api.gates import ALL_GATES
from dray.node.errors import PrepareError, UnprepareError
from dray.node.pod_claims import PodClaims
from dray.testing.kubelet.faults import answer_for_another_claim, deadline, lost_answer, skipped_claim
from dray.testing.objects import container, pod

from .clusters import bound_pod, kubelet_on_cluster
from .scripted_driver import DRIVER, scripted_driver


async def test_a_pod_gets_the_cdi_ids_of_its_claim_and_gives_them_back():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "one", "two")
        started = await kubelet.try_pod("p")
        assert started.cdi_ids == {"main": ["example.com/gpu=one", "example.com/gpu=two"]}
        assert (await cluster.get("Pod", "p"))["status"]["phase"] == "Running"
        await kubelet.end_pod("p")
        assert driver.asked == [("v1", "prepare", ["one", "two"]), ("v1", "unprepare", ["one", "two"])]
        assert kubelet.prepared_claims == {}
        assert (await cluster.get("Pod", "p"))["status"]["phase"] == "Succeeded"


async def test_a_shared_claim_is_prepared_for_the_first_pod_and_unprepared_after_the_last():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "a", "shared")
        await bound_pod(cluster, "b", "shared")
        assert (await kubelet.try_pod("a")).cdi_ids == (await kubelet.try_pod("b")).cdi_ids
        await kubelet.end_pod("a")
        assert [call[1] for call in driver.asked] == ["prepare"]
        await kubelet.end_pod("b")
        assert [call[1] for call in driver.asked] == ["prepare", "unprepare"]


async def test_a_device_is_not_prepared_for_a_second_claim_before_it_is_given_back():
    """As after a pod was deleted by force: its claim is gone, its containers are not."""
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        for name in ("one", "two"):
            driver.devices[name] = [
                {"pool_name": "worker", "device_name": "gpu-7", "cdi_device_ids": [f"x.com/g={name}"]}
            ]
        result = {"request": "gpu", "driver": DRIVER, "pool": "worker", "device": "gpu-7"}
        await bound_pod(cluster, "a", ("one", [result]))
        await bound_pod(cluster, "b", ("two", [result]))
        await kubelet.try_pod("a")
        with pytest.raises(PrepareError, match="gpu-7 is still prepared for ResourceClaim default/one"):
            await kubelet.try_pod("b")
        await kubelet.end_pod("a")
        assert (await kubelet.try_pod("b")).cdi_ids == {"main": ["x.com/g=two"]}


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_device_that_an_administrator_looks_into_can_be_prepared_for_others(restarted):
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        for name in ("monitor", "user"):
            driver.devices[name] = [{"pool_name": "worker", "device_name": "gpu-7"}]
        result = {"request": "gpu", "driver": DRIVER, "pool": "worker", "device": "gpu-7"}
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await cluster.patch("Namespace", "default", label)
        await bound_pod(cluster, "a", ("monitor", [{**result, "adminAccess": True}]))
        await bound_pod(cluster, "b", ("user", [result]))
        await kubelet.try_pod("a")
        if restarted:
            await kubelet.restart()
            await kubelet.registered(DRIVER)
        await kubelet.try_pod("b")
        assert [call[1] for call in driver.asked].count("prepare") == 2


async def test_containers_get_the_devices_of_the_requests_they_name():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        driver.devices["c"] = [
            {"pool_name": "worker", "device_name": "gpu-0", "request_names": ["a"], "cdi_device_ids": ["x.com/g=a"]},
            {"pool_name": "worker", "device_name": "gpu-1", "request_names": ["b"], "cdi_device_ids": ["x.com/g=b"]},
            {"pool_name": "worker", "device_name": "all", "cdi_device_ids": ["x.com/g=every"]},
            {"pool_name": "worker", "device_name": "none", "request_names": ["b"]},
        ]
        uses = {"first": [{"name": "claim-0", "request": "a"}], "second": [{"name": "claim-0", "request": "b"}]}
        uses |= {"whole": [{"name": "claim-0"}], "bare": []}
        containers = [container(name, resources={"claims": each}) for name, each in uses.items()]
        containers[-1].pop("resources")
        await bound_pod(cluster, "p", "c", containers=containers)
        assert (await kubelet.try_pod("p")).cdi_ids == {
            "first": ["x.com/g=a", "x.com/g=every"],
            "second": ["x.com/g=b", "x.com/g=every"],
            "whole": ["x.com/g=a", "x.com/g=b", "x.com/g=every"],
            "bare": [],
        }


@pytest.mark.parametrize(
    ("missing", "said"), [("allocation", "is not allocated"), ("reservedFor", "is not allowed to use ResourceClaim")]
)
async def test_a_claim_that_the_pod_may_not_use_leaves_no_trace(missing, said):
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        made = await bound_pod(cluster, "p", "c")
        stored = await cluster.get("ResourceClaim", "c")
        del stored["status"][missing]
        # A server refuses a reservation without an allocation; an old one may hold it all the same.
        claims = _Answering(stored)
        with pytest.raises(PrepareError, match=said):
            await PodClaims(claims, ALL_GATES).usable(made)
        await cluster.patch("ResourceClaim", "c", {"status": {"reservedFor": None}}, subresource="status")
        with pytest.raises(PrepareError, match="is not allowed to use"):
            await kubelet.try_pod("p")
        assert kubelet.prepared_claims == {}
        assert driver.asked == []


class _Answering:
    def __init__(self, claim):
        self._claim = claim

    async def get(self, resource, name, *, namespace):
        return self._claim


async def test_a_template_whose_claim_is_not_made_yet_keeps_the_pod_waiting():
    async with kubelet_on_cluster() as (cluster, kubelet):
        await cluster.create(pod("p", templates=["t"], nodeName="worker"))
        with pytest.raises(PrepareError, match="claim template-0: ResourceClaim not created yet"):
            await kubelet.try_pod("p")
        await kubelet.end_pod("p")


async def test_a_driver_that_is_not_registered_keeps_the_pod_waiting_and_is_not_recorded():
    async with kubelet_on_cluster() as (cluster, kubelet):
        await bound_pod(cluster, "p", "c")
        with pytest.raises(PrepareError, match=r"DRA driver gpu\.example\.com is not registered"):
            await kubelet.try_pod("p")
        await kubelet.end_pod("p")


async def test_an_error_for_one_claim_names_it_and_the_pod_can_still_end():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "good", "bad")
        driver.errors["bad"] = "the device is on fire"
        with pytest.raises(PrepareError, match=r"ResourceClaim default/bad \(.*\): the device is on fire"):
            await kubelet.try_pod("p")
        assert kubelet.prepared_claims.keys() == {"good", "bad"}
        with pytest.raises(UnprepareError, match="on fire"):
            await kubelet.try_end("p")
        driver.errors.clear()
        await kubelet.end_pod("p")
        assert kubelet.prepared_claims == {}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (answer_for_another_claim(), "returned result for unknown claim UID 00000000"),
        (skipped_claim(), "skipped 1 ResourceClaims: default/c"),
        (lost_answer(), "UNAVAILABLE"),
    ],
    ids=["another claim", "skipped", "lost"],
)
async def test_a_wrong_or_missing_answer_fails_the_attempt_and_the_next_one_goes_well(fault, said):
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root):
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "c")
        kubelet.faults.next_prepare(fault)
        with pytest.raises(PrepareError, match=said):
            await kubelet.try_pod("p")
        assert (await kubelet.try_pod("p")).cdi_ids["main"]
        kubelet.faults.next_unprepare(fault)
        with pytest.raises(UnprepareError, match=said):
            await kubelet.try_end("p")
        assert kubelet.prepared_claims.keys() == {"c"}
        await kubelet.end_pod("p")


async def test_a_driver_that_hangs_past_the_deadline_fails_the_attempt():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "c")
        driver.hold = asyncio.Event()
        kubelet.faults.next_prepare(deadline(0.05))
        with pytest.raises(PrepareError, match="DEADLINE_EXCEEDED"):
            await kubelet.try_pod("p")
        kubelet.faults.next_unprepare(deadline(0.05))
        with pytest.raises(UnprepareError, match="DEADLINE_EXCEEDED"):
            await kubelet.try_end("p")
        driver.hold.set()
        await kubelet.end_pod("p")


async def test_a_claim_is_not_handed_to_a_new_pod_while_it_is_unprepared():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "a", "shared")
        await bound_pod(cluster, "b", "shared")
        await kubelet.try_pod("a")
        driver.hold = asyncio.Event()
        ending = asyncio.create_task(kubelet.try_end("a"))

        async def asked():
            return driver.asked[-1][1] == "unprepare"

        await kubelet.eventually(asked)
        with pytest.raises(PrepareError, match="is being unprepared"):
            await kubelet.try_pod("b")
        driver.hold.set()
        await ending
        await kubelet.start_pod("b")
        assert [call[1] for call in driver.asked] == ["prepare", "unprepare", "prepare"]


async def test_a_claim_that_took_the_name_of_another_waits_until_that_is_unprepared():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root):
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "old", "c")
        await kubelet.try_pod("old")
        await cluster.delete("ResourceClaim", "c")
        assert await cluster.get("ResourceClaim", "c") is None
        await bound_pod(cluster, "new", "c")
        with pytest.raises(PrepareError, match=r"old ResourceClaim default/c .* with same name"):
            await kubelet.try_pod("new")
        await kubelet.end_pod("old")
        await kubelet.start_pod("new")


async def test_drivers_that_want_no_calls_get_none_and_need_not_be_there():
    result = {"request": "gpu", "driver": "accounting.example.com", "pool": "p", "device": "d"}
    async with kubelet_on_cluster() as (cluster, kubelet):
        await bound_pod(cluster, "p", ("c", [{**result, "skipNodeOperations": ["*"]}]))
        assert (await kubelet.try_pod("p")).cdi_ids == {"main": []}
        await kubelet.restart()
        await kubelet.end_pod("p")
        skips = kubelet.node.metrics.registry.get_sample_value(
            "dra_node_unprepare_skips_total", {"driver_name": "accounting.example.com"}
        )
        assert skips == 1
        mixed = [{**result, "skipNodeOperations": ["*"]}, {**result, "device": "e"}]
        await bound_pod(cluster, "q", ("mixed", mixed))
        with pytest.raises(PrepareError, match="is not registered"):
            await kubelet.try_pod("q")


async def test_a_restart_calls_nobody_and_a_new_pod_on_the_claim_prepares_again():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "a", "shared")
        await kubelet.try_pod("a")
        await kubelet.restart()
        await kubelet.registered(DRIVER)
        assert [call[1] for call in driver.asked] == ["prepare"]
        await bound_pod(cluster, "b", "shared")
        await kubelet.try_pod("b")
        assert [call[1] for call in driver.asked] == ["prepare", "prepare"]
        await kubelet.restart()
        await kubelet.end_pod("a")
        await kubelet.end_pod("b")
        assert [call[1] for call in driver.asked] == ["prepare", "prepare", "unprepare"]


async def test_pods_deleted_while_the_kubelet_was_away_are_unprepared():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root) as driver:
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "c")
        await kubelet.try_pod("p")
        await kubelet.stop()
        await cluster.delete("Pod", "p")
        await kubelet.start()

        async def gone():
            return not kubelet.prepared_claims

        await kubelet.eventually(gone, "nothing is prepared")
        assert driver.asked[-1] == ("v1", "unprepare", ["c"])


async def prepared_by_a_driver_that_went(cluster, kubelet):
    async with scripted_driver(kubelet.root):
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "c")
        await kubelet.try_pod("p")
    await kubelet.deregistered(DRIVER)


async def test_a_pod_stays_while_its_driver_is_gone():
    async with kubelet_on_cluster() as (cluster, kubelet):
        await prepared_by_a_driver_that_went(cluster, kubelet)
        with pytest.raises(UnprepareError, match="is not registered"):
            await kubelet.try_end("p")
        assert (await cluster.get("Pod", "p"))["status"]["phase"] == "Running"
        async with scripted_driver(kubelet.root):
            await kubelet.end_pod("p")


async def test_an_administrator_can_forget_a_claim_whose_driver_will_not_come_back():
    async with kubelet_on_cluster() as (cluster, kubelet):
        await prepared_by_a_driver_that_went(cluster, kubelet)
        assert kubelet.node.manager.forget("default", "c")
        assert not kubelet.node.manager.forget("default", "c")
        await kubelet.end_pod("p")


async def test_metrics_count_claims_in_use_and_calls():
    async with kubelet_on_cluster() as (cluster, kubelet), scripted_driver(kubelet.root):
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "one", "two")
        await kubelet.try_pod("p")
        sample = kubelet.node.metrics.registry.get_sample_value
        assert sample("dra_resource_claims_in_use", {"driver_name": "<any>"}) == 2
        assert sample("dra_resource_claims_in_use", {"driver_name": DRIVER}) == 2
        method = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
        labels = {"driver_name": DRIVER, "method_name": method, "grpc_status_code": "OK"}
        assert sample("dra_grpc_operations_duration_seconds_count", labels) == 1
        labels = {"operation_name": "PrepareResources", "is_error": "false"}
        assert sample("dra_operations_duration_seconds_count", labels) == 1
