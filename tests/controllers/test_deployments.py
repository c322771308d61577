"""Deployments as their users see them: roll-outs, their history, pauses, sizes, and roll-outs that are stuck."""

import pytest

from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests.controllers.jobs import Clock
from tests.controllers.workloads import pods, reasons, until

REVISION = "deployment.kubernetes.io/revision"


def cluster(*controllers, **options):
    return LocalCluster(controllers=["deployment", "replicaset", *controllers], **options)


def deployment(image="v1", **spec):
    pod = objects.pod("web")
    pod["spec"]["containers"][0]["image"] = image
    return objects.deployment("web", pod, **spec)


def with_image(image):
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


async def change(local, body):
    return await local.patch("Deployment", "web", body)


async def complete(local, **options):
    """The Deployment, once all its pods are of the newest revision and available."""

    async def holds():
        found = await local.get("Deployment", "web")
        status, wanted = found["status"], found["spec"]["replicas"]
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return None
        names = ("replicas", "updatedReplicas", "availableReplicas")
        is_all = all(status.get(name, 0) == wanted for name in names)
        return found if is_all and condition(found, "Progressing").get("reason") == "NewReplicaSetAvailable" else None

    return await until(local, holds, **options)


def condition(found, kind):
    return next((each for each in found["status"].get("conditions") or () if each["type"] == kind), {})


async def revisions(local):
    """ReplicaSets by revision."""
    found = await local.list("ReplicaSet")
    return {int(each["metadata"]["annotations"][REVISION]): each for each in found}


async def test_a_roll_out_replaces_the_pods_within_its_bounds():
    async with cluster() as local:
        await local.create(deployment(replicas=4, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}))
        found = await complete(local)
        assert found["metadata"]["annotations"][REVISION] == "1"
        assert condition(found, "Available")["reason"] == "MinimumReplicasAvailable"
        (first,) = await local.list("ReplicaSet")
        assert condition(found, "Progressing")["message"] == (
            f'ReplicaSet "{first["metadata"]["name"]}" has successfully progressed.'
        )
        label = first["metadata"]["labels"]["pod-template-hash"]
        assert first["metadata"]["name"] == f"web-{label}"
        assert first["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": label}
        await change(local, with_image("v2"))

        async def bounded():
            running = await pods(local)
            ready = [each for each in running if each["spec"].get("nodeName")]
            assert len(running) <= 5
            assert len(ready) >= 3
            return all(each["spec"]["containers"][0]["image"] == "v2" for each in running) and len(running) == 4

        await until(local, bounded)
        found = await complete(local)
        assert found["metadata"]["annotations"][REVISION] == "2"
        sizes = {number: each["spec"]["replicas"] for number, each in (await revisions(local)).items()}
        assert sizes == {1: 0, 2: 4}
        told = [message for reason, message in await reasons(local, "Deployment") if reason == "ScalingReplicaSet"]
        assert f"Scaled up replica set {first['metadata']['name']} from 0 to 4" in told
        assert any(f"Scaled down replica set {first['metadata']['name']}" in each for each in told)


async def test_going_back_makes_an_earlier_revision_the_newest():
    async with cluster() as local:
        await local.create(deployment(replicas=1))
        await complete(local)
        await change(local, {**with_image("v2"), "metadata": {"annotations": {"kubernetes.io/change-cause": "v2"}}})
        await complete(local)
        names = {number: each["metadata"]["name"] for number, each in (await revisions(local)).items()}
        await change(local, with_image("v1"))
        await complete(local)
        found = await revisions(local)
        assert {number: each["metadata"]["name"] for number, each in found.items()} == {2: names[2], 3: names[1]}
        assert found[3]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        assert found[2]["metadata"]["annotations"]["kubernetes.io/change-cause"] == "v2"


async def test_revisions_beyond_the_limit_are_deleted():
    async with cluster() as local:
        await local.create(deployment(replicas=1, revisionHistoryLimit=1))
        for image in ("v1", "v2", "v3", "v4"):
            await change(local, with_image(image))
            await complete(local)

        async def two():
            return set(await revisions(local)) == {3, 4}

        await until(local, two)


async def test_recreate_ends_all_old_pods_before_it_makes_new_ones():
    async with cluster() as local:
        await local.create(deployment(replicas=2, strategy={"type": "Recreate"}))
        await complete(local)
        await change(local, with_image("v2"))

        async def alone():
            images = {each["spec"]["containers"][0]["image"] for each in await local.list("Pod")}
            assert len(images) <= 1
            return images == {"v2"}

        await until(local, alone)
        await complete(local)


async def test_a_paused_deployment_is_scaled_and_not_rolled_out():
    async with cluster() as local:
        await local.create(deployment(replicas=1))
        await complete(local)
        await change(local, {"spec": {"paused": True, "replicas": 3, **with_image("v2")["spec"]}})

        async def scaled():
            found = await local.get("Deployment", "web")
            return found if found["status"].get("readyReplicas") == 3 else None

        found = await until(local, scaled)
        assert condition(found, "Progressing")["reason"] == "DeploymentPaused"
        assert {each["spec"]["containers"][0]["image"] for each in await pods(local)} == {"v1"}
        await change(local, {"spec": {"paused": False}})
        await complete(local)
        assert {each["spec"]["containers"][0]["image"] for each in await pods(local)} == {"v2"}


async def test_a_roll_out_without_progress_has_failed_after_its_deadline_and_can_be_scaled():
    clock = Clock()
    async with cluster(time=clock) as local:
        bounds = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await local.create(deployment(replicas=3, progressDeadlineSeconds=60, strategy=bounds))
        await complete(local)
        await change(local, with_image("broken"))

        async def stuck():
            found = await local.get("Deployment", "web")
            return found if found["status"].get("updatedReplicas") == 1 and found["status"]["replicas"] == 4 else None

        found = await until(local, stuck, broken=("broken",))
        assert condition(found, "Progressing")["reason"] == "ReplicaSetUpdated"
        clock.advance(120)

        async def timed_out():
            # Anything that makes it look; with a real clock it would have looked by itself.
            await local.patch("ReplicaSet", (await revisions(local))[1]["metadata"]["name"], _touched(clock))
            found = await local.get("Deployment", "web")
            return found if condition(found, "Progressing").get("reason") == "ProgressDeadlineExceeded" else None

        found = await local.eventually(timed_out)
        assert condition(found, "Progressing")["status"] == "False"
        assert condition(found, "Available")["status"] == "True"
        # Both revisions get their share: 3 and 1 of 4 become 6 and 2, less one, of 7.
        await change(local, {"spec": {"replicas": 6}})

        async def shared():
            return {number: each["spec"]["replicas"] for number, each in (await revisions(local)).items()}

        async def in_shares():
            return await shared() == {1: 5, 2: 2}

        await until(local, in_shares, broken=("broken",))
        await change(local, with_image("v1"))
        await complete(local, broken=("broken",))


def _touched(clock):
    return {"metadata": {"annotations": {"touched": str(clock.now().timestamp())}}}


async def test_a_name_that_is_taken_is_counted_and_another_one_is_found():
    async with cluster() as local:
        found = await local.create(deployment(replicas=0))
        await complete(local)
        (made,) = await local.list("ReplicaSet")
        await local.delete("Deployment", "web")
        # Nobody collects garbage here: the ReplicaSet of the first one has the name that the second one's would get.
        await local.client.patch(
            kind_of("ReplicaSet"),
            made["metadata"]["name"],
            {"metadata": {"ownerReferences": None, "labels": {"app": "other"}}},
            namespace="default",
        )
        await local.create(deployment(replicas=1))
        again = await complete(local)
        assert again["metadata"]["uid"] != found["metadata"]["uid"]
        assert again["status"]["collisionCount"] == 1
        assert len(await local.list("ReplicaSet")) == 2


@pytest.mark.parametrize("replicas", [0, 2])
async def test_a_replica_set_without_a_controller_is_adopted(replicas):
    async with cluster() as local:
        pod = objects.pod("web")
        pod["spec"]["containers"][0]["image"] = "v1"
        await local.create(objects.replica_set("web", pod, labels={"app": "web"}, replicas=replicas))
        made = await local.create(deployment(replicas=2))
        await complete(local)
        (found,) = await local.list("ReplicaSet")
        assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert found["metadata"]["annotations"][REVISION] == "1"


async def test_replica_sets_that_a_deployment_leaves_are_taken_by_the_next_and_go_with_it():
    async with cluster("garbage-collector") as local:
        place = "/apis/apps/v1/namespaces/default/deployments/web"
        for policy, left in (("Orphan", 1), ("Foreground", 0)):
            await local.create(deployment(replicas=2))
            await complete(local)
            before = [each["metadata"]["uid"] for each in await local.list("ReplicaSet")]
            assert len(before) == 1
            await local.client.request("DELETE", place, query={"propagationPolicy": policy})

            async def gone(left=left, before=before):
                found = [each["metadata"]["uid"] for each in await local.list("ReplicaSet")]
                is_gone = await local.get("Deployment", "web") is None
                return is_gone and found == before[:left] and len(await pods(local)) == 2 * left

            await until(local, gone)


async def test_a_set_that_admission_takes_the_annotations_from_is_rolled_out_all_the_same(caplog):
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["replicasets"]}
    patch = {"expression": '[JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]'}
    group = "admissionregistration.k8s.io/v1"
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": patch}],
    }
    async with cluster() as local:
        for kind, spec in (("", policy), ("Binding", {"policyName": "strip"})):
            made = {"apiVersion": group, "kind": f"MutatingAdmissionPolicy{kind}", "metadata": {"name": "strip"}}
            await local.create({**made, "spec": spec})
        await local.create(deployment(replicas=1))
        assert (await complete(local))["metadata"]["annotations"][REVISION] == "1"
    assert "KeyError" not in caplog.text
