"""Actions of viewers: offered by right alone, tried with a dry run, and done with the viewer's own rights."""

from __future__ import annotations

from typing import Any

from dray.api.objects import Object, spec_of
from dray.client.foreign_kinds import KAI_QUEUE, KUEUE, definitions
from dray.testing import objects
from dray.web.actions.quotas import amounts, changed
from tests.web.asgi import Viewer
from tests.web.stages import ViewStage, view_stage
from tests.web.test_devices_view import hold, world

GPU_0 = "gpu.example.com/a/gpu-0"
RULE_GROUP = "devicetaintrules.resource.k8s.io"


async def offered(stage: ViewStage, viewer: Viewer, target: str, name: str, namespace: str = "") -> list[str]:
    answer = await stage.call(viewer, "devices", "offers", target=target, name=name, namespace=namespace)
    return list(answer["actions"])


async def act(stage: ViewStage, viewer: Viewer, action: str, name: str, *, dry: bool, **body: Any) -> Object:
    answer: Object = await stage.call(viewer, "devices", "act", action=action, name=name, dryRun=dry, **body)
    return answer


async def test_actions_are_offered_by_right_alone() -> None:
    async with view_stage(*world(), objects.pod("p", namespace="default")) as stage:
        await stage.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red"}})
        await stage.cluster.create(objects.pod("q", namespace="red"))
        admin, ann = await stage.signed_in(), await stage.signed_in("ann")
        assert await offered(stage, admin, "device", GPU_0) == ["taint"]
        assert await offered(stage, admin, "node", "a") == ["cordon"]
        assert await offered(stage, admin, "pod", "p", "default") == ["delete-pod"]
        for target, name in (("device", GPU_0), ("node", "a"), ("pod", "p")):
            assert await offered(stage, ann, target, name, "default") == []
        bob = await stage.signed_in("bob")
        await stage.grant("bob", ["delete"], "pods", "red")
        assert await offered(stage, bob, "pod", "q", "red") == ["delete-pod"]
        assert await offered(stage, bob, "pod", "p", "default") == []


async def test_an_action_without_the_right_is_refused_and_changes_nothing() -> None:
    async with view_stage(*world(), objects.pod("p", namespace="default")) as stage:
        ann = await stage.signed_in("ann")
        for action, name in (("delete-pod", "p"), ("cordon", "a"), ("taint", GPU_0)):
            answer = await stage.refusal(
                ann, "devices", "act", action=action, name=name, namespace="default", dryRun=False
            )
            assert (answer.status, "you may not" in answer.json["error"]) == (400, True)
        assert await stage.cluster.get("Pod", "p") is not None
        assert not spec_of(await stage.cluster.get("Node", "a", namespace="") or {}).get("unschedulable")


async def test_a_device_is_tainted_after_a_dry_run_and_released() -> None:
    async with view_stage(*world()) as stage:
        await hold(stage, "train", "gpu-0", pool="a")
        viewer = await stage.signed_in()
        fields = {"effect": "NoExecute", "key": "example.com/broken"}
        tried = await act(stage, viewer, "taint", GPU_0, dry=True, fields=fields)
        assert "would be created" in tried["text"]
        assert "evicted" in tried["notes"][0]
        assert await stage.cluster.list("DeviceTaintRule") == []
        done = await act(stage, viewer, "taint", GPU_0, dry=False, fields=fields)
        [rule] = await stage.cluster.list("DeviceTaintRule")
        name = rule["metadata"]["name"]
        assert name in done["text"]
        assert rule["spec"]["deviceSelector"] == {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
        assert (rule["spec"]["taint"]["key"], rule["spec"]["taint"]["effect"]) == ("example.com/broken", "NoExecute")
        async with viewer.stream(f"/ui/stream/devices?open={GPU_0}") as stream:
            while name not in str(stream.events):
                await stream.until_event(len(stream.events) + 1)
        assert await offered(stage, viewer, "device", GPU_0) == ["taint", "release"]
        await act(stage, viewer, "release", GPU_0, dry=True, fields={"rule": name})
        assert len(await stage.cluster.list("DeviceTaintRule")) == 1
        await act(stage, viewer, "release", GPU_0, dry=False, fields={"rule": name})
        assert await stage.cluster.list("DeviceTaintRule") == []
        answer = await stage.refusal(viewer, "devices", "act", action="release", name=GPU_0, fields={"rule": "other"})
        assert "no DeviceTaintRule" in answer.json["error"]


async def test_a_node_is_cordoned_and_uncordoned() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        assert "would take no new pods" in (await act(stage, viewer, "cordon", "a", dry=True))["text"]
        assert not spec_of(await stage.cluster.get("Node", "a", namespace="") or {}).get("unschedulable")
        await act(stage, viewer, "cordon", "a", dry=False)
        assert spec_of(await stage.cluster.get("Node", "a", namespace="") or {})["unschedulable"] is True
        await act(stage, viewer, "uncordon", "a", dry=False)
        assert not spec_of(await stage.cluster.get("Node", "a", namespace="") or {}).get("unschedulable")


async def test_only_the_object_that_the_dry_run_saw_is_deleted() -> None:
    async with view_stage(*world(), objects.pod("p", namespace="default")) as stage:
        await stage.cluster.create(objects.claim("c"))
        viewer = await stage.signed_in()
        tried = await act(stage, viewer, "delete-pod", "p", namespace="default", dry=True)
        assert await stage.cluster.get("Pod", "p") is not None
        assert tried["uid"]
        await stage.cluster.delete("Pod", "p")
        await stage.cluster.create(objects.pod("p"))
        body = {"action": "delete-pod", "name": "p", "namespace": "default", "dryRun": False, "uid": tried["uid"]}
        assert (await stage.refusal(viewer, "devices", "act", **body)).status == 409
        assert await stage.cluster.get("Pod", "p") is not None
        await act(stage, viewer, "delete-claim", "c", namespace="default", dry=False)
        assert await stage.cluster.get("ResourceClaim", "c") is None


async def test_bad_calls_are_told_and_not_failures_of_the_page() -> None:
    async with view_stage(*world()) as stage:
        viewer = await stage.signed_in()
        for body in (
            {"action": "none", "name": "a"},
            {"action": "cordon", "name": "a", "dryRun": "no"},
            {"action": "cordon", "name": "../pods"},
            {"action": "taint", "name": "gpu-0"},
            {"action": "taint", "name": GPU_0, "fields": {"key": 7}},
            {"action": "taint", "name": GPU_0, "fields": {"effect": "x" * 400}},
        ):
            assert (await stage.refusal(viewer, "devices", "act", **body)).status == 400, body
        answer = await stage.refusal(viewer, "devices", "act", action="taint", name=GPU_0, fields={"effect": "Never"})
        assert answer.status == 422


def kueue() -> Object:
    resources = [{"name": "gpu", "nominalQuota": "4"}, {"name": "cpu", "nominalQuota": "10", "borrowingLimit": "2"}]
    groups = [{"coveredResources": ["gpu", "cpu"], "flavors": [{"name": "big", "resources": resources}]}]
    return {"metadata": {"name": "team", "resourceVersion": "7"}, "spec": {"cohort": "all", "resourceGroups": groups}}


def test_a_quota_of_kueue_is_changed_in_place() -> None:
    assert amounts(kueue()) == {"big/gpu": "4", "big/cpu": "10"}
    patch = changed(kueue(), "big/gpu", "6")
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert amounts({"metadata": {}, "spec": patch["spec"]}) == {"big/gpu": "6", "big/cpu": "10"}
    assert patch["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]["borrowingLimit"] == "2"


def test_a_quota_of_kai_is_a_number() -> None:
    queue = {"metadata": {"name": "team", "resourceVersion": "7"}, "spec": {"resources": {"gpu": {"quota": 4}}}}
    assert amounts(queue) == {"gpu": "4"}
    assert changed(queue, "gpu", "6")["spec"] == {"resources": {"gpu": {"quota": 6}}}


async def test_a_quota_is_changed_after_a_dry_run() -> None:
    async with view_stage(*world()) as stage:
        for definition in definitions():
            await stage.cluster.create(definition)
        kind = KUEUE["ClusterQueue"]
        queue = {
            **kueue(),
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "team"},
        }
        await stage.cluster.client.create(
            kind, {**queue, "spec": {"resourceGroups": kueue()["spec"]["resourceGroups"]}}
        )
        viewer, ann = await stage.signed_in(), await stage.signed_in("ann")
        offer = await stage.call(viewer, "devices", "offers", target="ClusterQueue", name="team")
        resource, amount = offer["actions"]["quota"]["fields"]
        assert resource["options"] == ["big/gpu", "big/cpu"]
        assert (amount["follows"], amount["values"]) == ("resource", {"big/gpu": "4", "big/cpu": "10"})
        assert await offered(stage, ann, "ClusterQueue", "team") == []
        fields = {"resource": "big/gpu", "amount": "6"}
        tried = await act(stage, viewer, "quota", "team", dry=True, fields=fields)
        assert tried["text"] == "Quota of team would be 6 big/gpu instead of 4"
        assert amounts(await stage.cluster.client.get(kind, "team"))["big/gpu"] == "4"
        await act(stage, viewer, "quota", "team", dry=False, fields=fields)
        assert amounts(await stage.cluster.client.get(kind, "team")) == {"big/gpu": "6", "big/cpu": "10"}
        wrong = {"action": "quota", "name": "team", "fields": {"resource": "big/gpu", "amount": "many"}}
        assert "is no amount" in (await stage.refusal(viewer, "devices", "act", **wrong)).json["error"]


async def test_the_quota_of_a_queue_is_not_offered_for_another_kind_of_the_same_name() -> None:
    async with view_stage(*world()) as stage:
        for definition in definitions():
            await stage.cluster.create(definition)
        spec = {"resourceGroups": kueue()["spec"]["resourceGroups"]}
        made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "team"}}
        await stage.cluster.client.create(KUEUE["ClusterQueue"], {**made, "spec": spec})
        resources = {"resources": {name: {"quota": 4, "limit": -1} for name in ("gpu", "cpu", "memory")}}
        made = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}}
        await stage.cluster.client.create(KAI_QUEUE, {**made, "spec": resources})
        viewer = await stage.signed_in()
        assert await offered(stage, viewer, "ClusterQueue", "team") == ["quota"]
        assert await offered(stage, viewer, "Queue", "team") == ["kai-quota"]
        assert await offered(stage, viewer, "Cohort", "team") == []
