import asyncio
import contextlib
from datetime import timedelta

import pytest

from dray.api.catalogue import find
from dray.client.errors import ApiError, ConnectionFailed
from dray.client.interface import DeleteOptions
from dray.testing.cluster import LocalCluster
from tests.controllers.clients import Passing
from tests.controllers.devices import (
    DRIVER,
    Shifted,
    allocate,
    claim,
    pod,
    resource_slice,
    result,
    rule,
    running,
    taint,
)

EXISTS = {"operator": "Exists", "effect": "NoExecute"}
MOMENT = 0.1


@contextlib.asynccontextmanager
async def evicting(**options):
    async with LocalCluster(controllers=["device-taint-eviction"], **options) as cluster:
        await settled()
        yield cluster


async def settled():
    """Lets the controller take in what happened so far."""
    await asyncio.sleep(0.02)


async def is_ending(cluster, name="p", namespace="default"):
    found = await cluster.get("Pod", name, namespace=namespace)
    return found is None or "deletionTimestamp" in found["metadata"]


async def evicted(cluster, name="p", namespace="default"):
    await cluster.eventually(lambda: is_ending(cluster, name, namespace))
    return await cluster.get("Pod", name, namespace=namespace)


async def stays(cluster, name="p"):
    await asyncio.sleep(MOMENT)
    assert not await is_ending(cluster, name)


async def condition(cluster, name="r"):
    status = (await cluster.get("DeviceTaintRule", name)).get("status") or {}
    return next(iter(status.get("conditions") or ()), None)


async def told(cluster, reason, name="r"):
    """The condition once it has this reason."""

    async def holds():
        found = await condition(cluster, name)
        return found if found and found["reason"] == reason else None

    return await cluster.eventually(holds)


async def events(cluster):
    await cluster.environment.events.written()
    return [(each["reason"], each["message"], each["involvedObject"]["name"]) for each in await cluster.list("Event")]


def broken(device="d0", **of_taint):
    return {"name": device, "taints": [taint(**of_taint)]}


async def test_a_taint_in_a_slice_ends_the_pod_and_says_why():
    async with evicting() as cluster:
        await running(cluster, "p", result("d0"))
        await running(cluster, "other", result("d1"))
        await cluster.create(resource_slice("s", broken(), "d1"))
        ending = await evicted(cluster)
        (why,) = [each for each in ending["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert why["status"] == "True"
        assert why["reason"] == "DeletionByDeviceTaintManager"
        assert why["message"] == "Device Taint manager: deleting due to NoExecute taint"
        assert await events(cluster) == [("DeviceTaintManagerEviction", "Marking for deletion", "p")]
        await stays(cluster, "other")
        assert cluster.sample("device_taint_eviction_controller_pod_deletions_total") == 1
        assert cluster.sample("device_taint_eviction_controller_pod_deletion_duration_seconds_count") == 1


async def test_what_was_there_before_the_controller_is_seen():
    async with LocalCluster() as cluster:
        await running(cluster, "p", result("d0"))
        await cluster.create(resource_slice("s", broken()))
        async with evicting(store=cluster.server.context.store) as later:
            await evicted(later)


@pytest.mark.parametrize("order", ["claim slice pod", "pod slice claim", "slice claim pod", "pod claim slice"])
async def test_the_order_of_things_does_not_matter(order):
    async with evicting() as cluster:
        made = {}

        async def add(what):
            if what == "slice":
                await cluster.create(resource_slice("s", broken()))
            elif what == "pod":
                made["pod"] = await cluster.create(pod("p", "p"))
            else:
                await cluster.create(claim("p", finalizers=["resource.kubernetes.io/delete-protection"]))
                made["claim"] = True
            if len(made) == 2 and not made.get("reserved"):
                made["reserved"] = True
                await allocate(cluster, "p", result("d0"), pods=[made["pod"]])

        for what in order.split():
            await add(what)
            await settled()
        await evicted(cluster)


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
async def test_other_effects_do_not_evict(effect):
    async with evicting() as cluster:
        await running(cluster, "p", result("d0"))
        await cluster.create(resource_slice("s", broken(effect=effect)))
        await stays(cluster)


@pytest.mark.parametrize(
    ("tolerations", "tolerated"),
    [
        ([EXISTS], True),
        ([{"operator": "Exists"}], False),
        ([{**EXISTS, "effect": "NoSchedule"}], False),
        ([{**EXISTS, "key": "other"}], False),
        ([{**EXISTS, "tolerationSeconds": 3600}], True),
        ([{**EXISTS, "tolerationSeconds": 2**62}], True),
        ([{**EXISTS, "tolerationSeconds": 0}], False),
        ([{**EXISTS, "tolerationSeconds": -1}], False),
        ([{**EXISTS, "tolerationSeconds": 3600}, {**EXISTS, "tolerationSeconds": 0}], False),
        ([{**EXISTS, "tolerationSeconds": 0}, EXISTS], True),
    ],
)
async def test_only_tolerations_of_the_effect_by_name_count(tolerations, tolerated):
    async with evicting() as cluster:
        await running(cluster, "p", result("d0", tolerations=tolerations))
        await cluster.create(resource_slice("s", broken()))
        await (stays(cluster) if tolerated else evicted(cluster))


async def test_toleration_seconds_run_from_when_the_taint_was_added():
    clock = Shifted()
    async with evicting(time=clock) as cluster:
        await running(cluster, "p", result("d0", tolerations=[{**EXISTS, "tolerationSeconds": 60}]))
        added = clock.now()
        await cluster.create(resource_slice("s", broken(at=added)))
        await stays(cluster)
        # The changed value makes the pod be looked at: its timer counts the seconds of the loop.
        clock.ahead = timedelta(seconds=61)
        await cluster.patch("ResourceSlice", "s", {"spec": {"devices": [broken(at=added, value="again")]}})
        await evicted(cluster)


async def test_the_timer_ends_the_pod_by_itself():
    clock = Shifted()
    async with evicting(time=clock) as cluster:
        await running(cluster, "p", result("d0", tolerations=[{**EXISTS, "tolerationSeconds": 1}]))
        now = clock.now()
        # Whole seconds are written: one second after that one is 0.15 s from now.
        clock.ahead = timedelta(seconds=0.85 - now.microsecond / 1e6)
        await cluster.create(resource_slice("s", broken(at=clock.now())))
        await asyncio.sleep(0.05)
        assert not await is_ending(cluster)
        await evicted(cluster)


async def test_a_taint_that_goes_cancels_the_eviction():
    async with evicting() as cluster:
        await running(cluster, "p", result("d0", tolerations=[{**EXISTS, "tolerationSeconds": 3600}]))
        await cluster.create(rule("r", {"driver": DRIVER}))
        await told(cluster, "PodsPendingEviction")
        await cluster.delete("DeviceTaintRule", "r")

        async def cancelled():
            return ("DeviceTaintManagerEviction", "Cancelling deletion", "p") in await events(cluster)

        await cluster.eventually(cancelled)
        await stays(cluster)


async def test_a_newer_generation_without_the_taint_cancels():
    async with evicting() as cluster:
        await running(cluster, "p", result("d0", tolerations=[{**EXISTS, "tolerationSeconds": 3600}]))
        await cluster.create(resource_slice("s", broken()))
        await asyncio.sleep(MOMENT)
        await cluster.create(resource_slice("t", "d0", generation=2))

        async def cancelled():
            return ("DeviceTaintManagerEviction", "Cancelling deletion", "p") in await events(cluster)

        await cluster.eventually(cancelled)


async def test_a_pod_without_node_or_reservation_stays():
    async with evicting() as cluster:
        await running(cluster, "unscheduled", result("d0"), node="")
        await running(cluster, "p", result("d0"))
        guest = await cluster.create(pod("guest", "p"))
        await cluster.create(resource_slice("s", broken()))
        await evicted(cluster)
        await stays(cluster, "unscheduled")
        await stays(cluster, guest["metadata"]["name"])


async def test_a_generated_claim_must_be_the_pods_own():
    async with evicting() as cluster:
        made = await cluster.create(
            {
                **pod("p"),
                "spec": {
                    "nodeName": "n",
                    "containers": [{"name": "main", "image": "x"}],
                    "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
                },
            }
        )
        reference = {"apiVersion": "v1", "kind": "Pod", "controller": True, "name": "p"}
        finalizers = ["resource.kubernetes.io/delete-protection"]
        await cluster.create(claim("own", finalizers=finalizers, ownerReferences=[{**reference, "uid": "another"}]))
        statuses = [{"name": "c", "resourceClaimName": "own"}]
        await cluster.patch("Pod", "p", {"status": {"resourceClaimStatuses": statuses}}, subresource="status")
        await cluster.create(resource_slice("s", broken()))
        await allocate(cluster, "own", result("d0"), pods=[made])
        await stays(cluster)
        mine = [{**reference, "uid": made["metadata"]["uid"]}]
        await cluster.patch("ResourceClaim", "own", {"metadata": {"ownerReferences": mine}})
        await cluster.patch("ResourceSlice", "s", {"spec": {"devices": [broken(value="v")]}})
        await evicted(cluster)


async def test_a_rule_also_finds_devices_that_are_no_longer_published():
    async with evicting() as cluster:
        await running(cluster, "p", result("gone"))
        await running(cluster, "other", result("gone", pool="elsewhere"))
        await cluster.create(rule("r", {"driver": DRIVER, "pool": "pool", "device": "gone"}))
        await evicted(cluster)
        await stays(cluster, "other")


@pytest.mark.parametrize("selector", [None, {"driver": "nic.example.com"}, {"pool": "x"}, {"device": "x"}])
async def test_a_rule_without_or_with_another_selector_evicts_nobody(selector):
    async with evicting() as cluster:
        await running(cluster, "p", result("d0"))
        await cluster.create(rule("r", selector))
        await told(cluster, "NotStarted")
        await stays(cluster)


async def test_an_empty_selector_means_everything():
    async with evicting() as cluster:
        await running(cluster, "p", result("d0"))
        await cluster.create(rule("r", {}))
        await evicted(cluster)


async def test_a_rule_tells_how_far_it_has_come():
    clock = Shifted()
    async with evicting(time=clock) as cluster:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        patient = {"tolerations": [{**EXISTS, "tolerationSeconds": 3600}]}
        await running(cluster, "p", result("d0", **patient))
        await running(cluster, "q", result("d1", **patient))
        await running(cluster, "q", result("d2", **patient), namespace="other")
        await cluster.create(rule("r", {"driver": DRIVER}))
        first = await told(cluster, "PodsPendingEviction")
        assert first["status"] == "True"
        assert first["message"] == "3 pods need to be evicted in 2 different namespaces."
        assert first["observedGeneration"] == 1
        # Within ten seconds nothing more is told.
        await cluster.delete("Pod", "q", namespace="other")
        await asyncio.sleep(MOMENT)
        assert await condition(cluster) == first
        clock.ahead = timedelta(seconds=11)
        await cluster.delete("Pod", "q")

        async def fewer():
            return (await condition(cluster))["message"] == "1 pod needs to be evicted in 1 namespace."

        await cluster.eventually(fewer)


async def test_a_rule_that_has_done_its_work_says_so():
    async with evicting() as cluster:
        await running(cluster, "p", result("d0"))
        await running(cluster, "q", result("d1"))
        await cluster.create(rule("r", {"driver": DRIVER}))
        await told(cluster, "PodsPendingEviction")
        await evicted(cluster, "p")
        await evicted(cluster, "q")
        # Another generation is told of at once.
        await cluster.patch("DeviceTaintRule", "r", {"spec": {"taint": {"value": "v"}}})
        done = await told(cluster, "Completed")
        assert done["status"] == "False"
        assert done["message"] == "2 pods evicted since starting the controller."
        assert done["observedGeneration"] == 2


async def test_effect_none_tells_once_what_would_happen():
    clock = Shifted()
    async with evicting(time=clock) as cluster:
        await running(cluster, "p", result("d0"))
        await running(cluster, "q", result("d1", tolerations=[EXISTS]))
        await cluster.create(resource_slice("old", "d9", generation=1))
        await cluster.create(resource_slice("s", "d0", "d1", "d2", generation=2))
        await cluster.create(rule("r", {"driver": DRIVER}, effect="None"))
        found = await told(cluster, "NoEffect")
        assert found["status"] == "False"
        assert found["message"] == (
            "3 published devices selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace "
            "if the effect was NoExecute. This information will not be updated again. "
            "Recreate the DeviceTaintRule to trigger an update."
        )
        clock.ahead = timedelta(seconds=60)
        await running(cluster, "z", result("d2"))
        await asyncio.sleep(MOMENT)
        assert await condition(cluster) == found
        assert not await is_ending(cluster)
        await cluster.patch("DeviceTaintRule", "r", {"spec": {"taint": {"effect": "NoExecute"}}})
        await evicted(cluster)
        await stays(cluster, "q")


async def test_effect_no_schedule_is_none_of_its_business():
    async with evicting() as cluster:
        await running(cluster, "p", result("d0"))
        await cluster.create(rule("r", {"driver": DRIVER}, effect="NoSchedule"))
        found = await told(cluster, "OtherEffect")
        assert found["message"] == "Eviction only happens for the NoExecute effect."
        await stays(cluster)


class Stumbling:
    """A client whose first answers to some questions are lost or refused."""

    def __init__(self, client, faults):
        self._client, self._faults = client, faults

    def __getattr__(self, name):
        answer = getattr(self._client, name)
        if name not in self._faults:
            return answer

        async def stumble(*args, **kwargs):
            if self._faults[name]:
                raise self._faults[name].pop(0)
            return await answer(*args, **kwargs)

        return stumble


async def test_writes_that_fail_are_tried_again():
    faults = {
        "get": [ConnectionFailed("no answer", sent=True)],
        "patch_status": [ApiError(409, "Conflict", "changed in between")],
        "delete_object": [ApiError(429, "TooManyRequests", "later"), ApiError(503, "ServiceUnavailable", "restarting")],
        "apply": [ApiError(500, "InternalError", "what")],
    }
    cluster = LocalCluster(controllers=["device-taint-eviction"])
    cluster.environment.client = Stumbling(cluster.client, faults)
    async with cluster:
        await running(cluster, "p", result("d0"))
        await cluster.create(rule("r", {"driver": DRIVER}))
        await evicted(cluster)
        await cluster.eventually(lambda: condition(cluster))
        assert not any(faults.values())


class Older(Passing):
    """A client of a server that does not serve the rules in all versions, or has no status for them."""

    def __init__(self, client, *missing):
        super().__init__(client)
        self._missing = missing

    async def request(self, method, path, **options):
        if path in self._missing:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return await self._client.request(method, path, **options)

    async def apply(self, resource, body, **options):
        assert resource.version == "v1alpha3"
        raise ApiError(404, "NotFound", "the server could not find the requested resource")


async def test_the_rules_are_read_in_the_version_that_is_served():
    cluster = LocalCluster(controllers=["device-taint-eviction"])
    group = "/apis/resource.k8s.io"
    cluster.environment.client = Older(cluster.client, f"{group}/v1", f"{group}/v1beta2")
    async with cluster:
        await settled()
        await running(cluster, "p", result("d0"))
        await cluster.create(rule("r", {"driver": DRIVER}))
        await evicted(cluster)


async def test_without_rules_slices_still_count_and_the_log_is_quiet(caplog):
    cluster = LocalCluster(controllers=["device-taint-eviction"])
    versions = [f"/apis/resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1alpha3")]
    cluster.environment.client = Older(cluster.client, *versions)
    async with cluster:
        await running(cluster, "p", result("d0"))
        await cluster.create(rule("r", {"driver": DRIVER}))
        await stays(cluster)
        await cluster.create(resource_slice("s", broken()))
        await evicted(cluster)
    assert not caplog.records


async def test_a_pod_that_took_the_name_is_left_alone():
    """The informer still shows the old pod while the new one is there already."""
    async with evicting() as cluster:
        old = await running(cluster, "p", result("d0"))
        kind = find("v1", "Pod")
        client = cluster.environment.client
        read = client.get

        async def replace_first(resource, name, **options):
            if (
                name == "p"
                and (await read(kind, "p", namespace="default"))["metadata"]["uid"] == old["metadata"]["uid"]
            ):
                await client.delete(kind, "p", namespace="default", options=DeleteOptions(grace_period=0))
                await client.create(kind, pod("p", "p"), namespace="default")
            return await read(resource, name, **options)

        client.get = replace_first
        await cluster.create(resource_slice("s", broken()))

        async def replaced():
            return (await read(kind, "p", namespace="default"))["metadata"]["uid"] != old["metadata"]["uid"]

        await cluster.eventually(replaced)
        client.get = read
        await stays(cluster)
