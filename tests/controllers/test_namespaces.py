"""Namespaces end, where the server leaves that to a controller and where it does so itself."""

import asyncio
from collections.abc import Mapping

from dray.client.api import ApiClient
from dray.client.discovery import ServedResource
from dray.client.interface import GroupVersionResource
from dray.controllers.namespaces import NamespaceController, Report, empty, updated
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from dray.testing.objects import namespace


def config_map(name, namespace="team", **metadata):
    return objects.config_map(name, namespace=namespace, **metadata)


def pod(name, node=None):
    return objects.pod(name, namespace="team", nodeName=node)


async def gone(cluster, name="team"):
    async def is_gone():
        return await cluster.get("Namespace", name) is None

    await cluster.eventually(is_gone)


async def conditions(cluster) -> Mapping[str, Mapping[str, str]]:
    status = (await cluster.get("Namespace", "team"))["status"]
    return {each["type"]: each for each in status.get("conditions") or ()}


async def test_a_namespace_ends_with_what_is_in_it():
    async with LocalCluster(controllers=["namespace"]) as cluster:
        await cluster.apply(namespace("team"), namespace("other"), config_map("a"), config_map("b"), pod("p"))
        await cluster.create(config_map("theirs", namespace="other"))
        await cluster.delete("Namespace", "team", grace=None)
        await gone(cluster)
        assert await cluster.list("ConfigMap", namespace="team") == []
        assert await cluster.list("Pod", namespace="team") == []
        assert await cluster.get("ConfigMap", "theirs", namespace="other") is not None
        assert (await cluster.get("Namespace", "other"))["status"]["phase"] == "Active"


async def test_objects_of_custom_kinds_end_too():
    async with LocalCluster(controllers=["namespace"]) as cluster:
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        names = {"plural": "widgets", "kind": "Widget"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
        metadata = {"name": "widgets.example.com"}
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        await cluster.create({**kind, "metadata": metadata, "spec": spec})
        await cluster.create(namespace("team"))
        widgets = GroupVersionResource("example.com", "v1", "widgets")
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "team"}}
        await cluster.client.create(widgets, widget)
        await cluster.delete("Namespace", "team", grace=None)
        await gone(cluster)
        assert (await cluster.client.list(widgets))["items"] == []


async def test_what_holds_it_up_is_said():
    async with LocalCluster(controllers=["namespace"]) as cluster:
        await cluster.apply(namespace("team"), config_map("held", finalizers=["example.com/hold"]))
        await cluster.delete("Namespace", "team", grace=None)

        async def told():
            return "NamespaceContentRemaining" in await conditions(cluster)

        await cluster.eventually(told)
        found = await conditions(cluster)
        assert {kind: each["status"] for kind, each in found.items()} == {
            "NamespaceDeletionDiscoveryFailure": "False",
            "NamespaceDeletionGroupVersionParsingFailure": "False",
            "NamespaceDeletionContentFailure": "False",
            "NamespaceContentRemaining": "True",
            "NamespaceFinalizersRemaining": "True",
        }
        left = found["NamespaceContentRemaining"]
        assert left["reason"] == "SomeResourcesRemain"
        assert left["message"] == "Some resources are remaining: configmaps. has 1 resource instances"
        assert "example.com/hold in 1 resource instances" in found["NamespaceFinalizersRemaining"]["message"]
        await cluster.patch("ConfigMap", "held", {"metadata": {"finalizers": None}}, namespace="team")
        await gone(cluster)


async def test_pods_end_before_what_they_use():
    async with LocalCluster(controllers=["namespace"]) as cluster:
        await cluster.apply(namespace("team"), config_map("settings"), pod("p", node="a"))
        await cluster.delete("Namespace", "team", grace=None)

        async def ending():
            return (await cluster.get("Pod", "p", namespace="team"))["metadata"].get("deletionTimestamp")

        await cluster.eventually(ending)
        await asyncio.sleep(0.05)
        assert await cluster.get("ConfigMap", "settings", namespace="team") is not None
        await cluster.delete("Pod", "p", namespace="team", grace=0)
        await gone(cluster)


async def test_a_namespace_that_was_ending_before_it_started_ends():
    async with LocalCluster() as cluster:
        await cluster.apply(namespace("team"), config_map("a"))
        await cluster.delete("Namespace", "team", grace=None)
        cluster.start(NamespaceController(cluster.environment).run())
        await gone(cluster)


async def test_two_of_them_may_work_at_once():
    async with LocalCluster(controllers=["namespace", "serviceaccount", "garbage-collector"]) as cluster:
        cluster.start(NamespaceController(cluster.environment).run())
        for number in range(5):
            await cluster.create(namespace(f"team{number}"))
            await cluster.create(config_map("a", namespace=f"team{number}"))
            await cluster.delete("Namespace", f"team{number}", grace=None)
        for number in range(5):
            await gone(cluster, f"team{number}")
        await cluster.create(namespace("team0"))
        await cluster.create(config_map("a", namespace="team0"))
        assert (await cluster.get("Namespace", "team0"))["status"]["phase"] == "Active"


async def test_a_group_that_does_not_answer_holds_it_up():
    async with LocalCluster(controllers=["namespace"]) as cluster:
        real = ApiClient.request
        down = True

        async def request(self, method, path, **rest):
            if down and path == "/apis":
                answer = await real(self, method, path, **rest)
                group = {
                    "metadata": {"name": "down.example.com"},
                    "versions": [{"version": "v1", "freshness": "Stale"}],
                }
                return {**answer, "items": [*answer["items"], group]}
            return await real(self, method, path, **rest)

        cluster.client.request = request.__get__(cluster.client)
        await cluster.apply(namespace("team"), config_map("a"))
        await cluster.delete("Namespace", "team", grace=None)

        async def told():
            found = (await conditions(cluster)).get("NamespaceDeletionDiscoveryFailure")
            return found and found["status"] == "True"

        await cluster.eventually(told)
        assert await cluster.get("ConfigMap", "a", namespace="team") is None
        down = False
        await gone(cluster)


async def test_without_deletecollection_it_goes_one_by_one():
    async with LocalCluster() as cluster:
        await cluster.apply(namespace("team"), config_map("a"), config_map("b", finalizers=["example.com/hold"]))
        verbs = frozenset({"delete", "list"})
        report = Report()
        await empty(cluster.client, [ServedResource("", "v1", "configmaps", "ConfigMap", True, verbs)], "team", report)
        assert report.remaining == {"configmaps.": 1}
        assert report.finalizers == {"example.com/hold": 1}
        # A kind that is no longer served has nothing left.
        report = Report()
        await empty(cluster.client, [ServedResource("x.example", "v1", "xs", "X", True, verbs)], "team", report)
        assert report.is_empty


def test_conditions_are_written_only_when_they_say_something_new():
    first = updated([], Report(remaining={"pods.": 1}), "1")
    assert updated(first, Report(remaining={"pods.": 1}), "2") is None
    second = {each["type"]: each for each in updated(first, Report(remaining={"pods.": 2}), "2")}
    assert second["NamespaceContentRemaining"]["lastTransitionTime"] == "1"
    third = {each["type"]: each for each in updated(list(second.values()), Report(), "3")}
    assert third["NamespaceContentRemaining"]["status"] == "False"
    assert third["NamespaceContentRemaining"]["lastTransitionTime"] == "3"
