"""Quotas: what their status says is taken."""

from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim, device_class, first_available, pod, priority_class, request, subrequest
from tests.controllers.clients import without_pod_groups
from tests.controllers.jobs import Clock


def cluster(clock=None):
    return LocalCluster(controllers=["resourcequota"], time=clock or Clock())


def quota(name="q", hard=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard or {}, **spec},
    }


async def used(local, name="q", *, amounts):
    """Waits until so much is used; gives the status."""
    last = None

    async def as_wanted():
        nonlocal last
        last = (await local.get("ResourceQuota", name)).get("status") or {}
        return last.get("used") == amounts

    try:
        await local.eventually(as_wanted, within=3)
    except AssertionError:
        raise AssertionError(last) from None
    return last


async def test_objects_are_counted():
    async with cluster() as local:
        hard = {"pods": "5", "count/pods": "6", "configmaps": "3", "count/jobs.batch": "1", "resourcequotas": "2"}
        await local.create(quota(hard=hard))
        none = dict.fromkeys(hard, "0")
        status = await used(local, amounts={**none, "resourcequotas": "1"})
        assert status["hard"] == hard
        await local.apply(pod("a"), pod("b"))
        await local.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
        some = {**none, "resourcequotas": "1", "configmaps": "1"}
        await used(local, amounts={**some, "pods": "2", "count/pods": "2"})
        await local.patch("Pod", "a", {"status": {"phase": "Succeeded"}}, subresource="status")
        await used(local, amounts={**some, "pods": "1", "count/pods": "2"})
        await local.delete("Pod", "a")
        await local.delete("ConfigMap", "c")
        await used(local, amounts={**none, "resourcequotas": "1", "pods": "1", "count/pods": "1"})


async def test_what_pods_ask_for_is_summed_up():
    async with cluster() as local:
        hard = {
            "cpu": "8",
            "requests.memory": "8Gi",
            "limits.cpu": "8",
            "requests.example.com/gpu": "4",
        }
        await local.create(quota(hard=hard))
        await local.apply(
            pod("a", requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "1", "memory": "2Gi"}),
            pod(
                "b",
                requests={"cpu": "1250m", "memory": "512Mi", "example.com/gpu": "2"},
                limits={"cpu": "2", "example.com/gpu": "2"},
            ),
        )
        amounts = {
            "cpu": "1750m",
            "requests.memory": "1536Mi",
            "limits.cpu": "3",
            "requests.example.com/gpu": "2",
        }
        await used(local, amounts=amounts)
        await local.patch("Pod", "b", {"status": {"phase": "Failed"}}, subresource="status")
        rest = {"cpu": "500m", "requests.memory": "1Gi", "limits.cpu": "1", "requests.example.com/gpu": "0"}
        await used(local, amounts={**amounts, **rest})


async def test_devices_are_counted_by_class():
    async with cluster() as local:
        for name, extended in (("gpu", "example.com/gpu"), ("nic", None)):
            await local.create(device_class(name, extendedResourceName=extended))
        hard = {
            "count/resourceclaims.resource.k8s.io": "9",
            "gpu.deviceclass.resource.k8s.io/devices": "99",
            "nic.deviceclass.resource.k8s.io/devices": "99",
            "requests.example.com/gpu": "99",
            "requests.deviceclass.resource.kubernetes.io/gpu": "99",
        }
        await local.create(quota(hard=hard))
        await used(local, amounts=dict.fromkeys(hard, "0"))
        either = first_available(
            "c", subrequest("x", count=2), subrequest("y"), subrequest("z", deviceClassName="nic", count=3)
        )
        everything = request("b", deviceClassName="nic", allocationMode="All")
        await local.create(claim("one", request("a", deviceClassName="gpu", count=2), everything, either))
        amounts = {
            "count/resourceclaims.resource.k8s.io": "1",
            "gpu.deviceclass.resource.k8s.io/devices": "4",
            "nic.deviceclass.resource.k8s.io/devices": "35",
            "requests.example.com/gpu": "4",
            "requests.deviceclass.resource.kubernetes.io/gpu": "4",
        }
        await used(local, amounts=amounts)
        await local.create(pod("p", requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "1"}))
        await used(local, amounts={**amounts, "requests.example.com/gpu": "5"})


async def test_a_claim_made_for_a_pods_extended_resources_is_not_charged_twice():
    async with cluster() as local:
        await local.create(device_class("gpu", extendedResourceName="example.com/gpu"))
        await local.create(
            quota(hard={"requests.example.com/gpu": "9", "gpu.deviceclass.resource.k8s.io/devices": "9"})
        )
        owner = await local.create(pod("p", requests={"example.com/gpu": "2"}, limits={"example.com/gpu": "2"}))
        made = claim("c", request("a", deviceClassName="gpu", count=2))
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["metadata"]["uid"]}
        reference["controller"] = True
        annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
        made["metadata"] |= {"annotations": annotations, "ownerReferences": [reference]}
        await local.create(made)
        await used(local, amounts={"requests.example.com/gpu": "2", "gpu.deviceclass.resource.k8s.io/devices": "2"})
        again = claim("d", request("a", deviceClassName="gpu", count=2))
        again["metadata"] |= {"annotations": annotations, "ownerReferences": [reference]}
        await local.create(again)
        await used(local, amounts={"requests.example.com/gpu": "4", "gpu.deviceclass.resource.k8s.io/devices": "4"})


async def test_scopes_say_which_pods_count():
    async with cluster() as local:
        await local.create(priority_class("hi", 5))
        high = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["hi"]}]}
        await local.create(quota("best", {"pods": "9"}, scopes=["BestEffort"]))
        await local.create(quota("not-best", {"pods": "9", "requests.cpu": "9"}, scopes=["NotBestEffort"]))
        await local.create(quota("ends", {"pods": "9"}, scopes=["Terminating"]))
        await local.create(quota("high", {"pods": "9"}, scopeSelector=high))
        await local.apply(
            pod("a"),
            pod("b", requests={"cpu": "1"}),
            pod("c", activeDeadlineSeconds=5),
            pod("d", priorityClassName="hi"),
        )
        await used(local, "best", amounts={"pods": "3"})
        await used(local, "not-best", amounts={"pods": "1", "requests.cpu": "1"})
        await used(local, "ends", amounts={"pods": "1"})
        await used(local, "high", amounts={"pods": "1"})


async def test_a_changed_quota_is_counted_anew_and_unknown_names_are_left_out():
    async with cluster() as local:
        await local.create(quota(hard={"pods": "1"}))
        await used(local, amounts={"pods": "0"})
        await local.patch("ResourceQuota", "q", {"spec": {"hard": {"pods": "2", "count/things.example.com": "1"}}})
        status = await used(local, amounts={"pods": "0"})
        await local.patch("ResourceQuota", "q", {"spec": {"hard": {"secrets": "2", "pods": None}}})
        status = await used(local, amounts={"secrets": "0"})
        assert status["hard"] == {"secrets": "2", "count/things.example.com": "1"}


async def test_what_an_older_server_does_not_serve_holds_up_nothing():
    async with cluster() as local:
        without_pod_groups(local.client)
        hard = {"count/podgroups.scheduling.k8s.io": "1", "configmaps": "5"}
        await local.create(quota(hard=hard))
        found = await used(local, amounts={"configmaps": "0"})
        assert found["hard"] == hard


async def test_namespaces_are_counted_apart():
    async with cluster() as local:
        await local.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        await local.create(quota(hard={"pods": "9"}))
        elsewhere = pod("a")
        elsewhere["metadata"]["namespace"] = "other"
        await local.apply(elsewhere, pod("a"))
        await used(local, amounts={"pods": "1"})
