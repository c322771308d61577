"""The queue that a pod was admitted to, on a server of dray's own: recorded at the binding, and not to be changed."""

import json

import pytest

from dray.api import pod_queues
from dray.client.errors import ApiError
from dray.client.foreign_kinds import definitions
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests import gpus
from tests.control_plane.test_roles import manifests
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal
from tests.scheduling_loop.test_queue_feed import cluster, make, placed


def queued(name, labels=None, annotations=None):
    made = gpus.pod(name, templates=["one"])
    made["metadata"].update(labels={QUEUE: "team"} if labels is None else labels, annotations=annotations or {})
    return made


async def full(local):
    """A queue of one GPU, a pod that has it and one that waits."""
    for document in (flavor(), cluster_queue("team", ("any", {GPU: nominal(1)})), local_queue("team", "team")):
        await make(local, document)
    await local.create(queued("first"))

    async def runs():
        return await placed(local)

    await local.eventually(runs)
    await local.create(queued("second"))

    async def waits():
        found = await local.get("Pod", "second")
        return [
            condition
            for condition in (found.get("status") or {}).get("conditions", ())
            if condition["type"] == "PodScheduled"
        ]

    await local.eventually(waits)


async def test_the_queue_is_recorded_and_the_label_of_a_running_pod_stays():
    async with cluster(*definitions()) as local:
        await full(local)
        first = await local.get("Pod", "first")
        record = json.loads(first["metadata"]["annotations"][pod_queues.RECORD])
        assert record["queues"] == {QUEUE: "team"}
        assert record["labels"] == {QUEUE: "team"}
        assert record["uid"] == first["metadata"]["uid"]
        for change in (
            {"labels": {QUEUE: None}},
            {"labels": {QUEUE: "other"}},
            {"labels": {"kai.scheduler/queue": "lab"}},
            {"annotations": {"pod-group-name": "g"}},
            {"annotations": {pod_queues.RECORD: None}},
        ):
            with pytest.raises(ApiError, match="may not change while the pod is on a node") as refused:
                await local.patch("Pod", "first", {"metadata": change})
            assert refused.value.status == 422
        await local.patch("Pod", "first", {"metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}}})
        await local.patch("Pod", "second", {"metadata": {"labels": {QUEUE: None}}})

        async def both():
            return len(await placed(local)) == 2

        # Out of the queue it needs no quota.
        await local.eventually(both)
        second = await local.get("Pod", "second")
        assert pod_queues.RECORD not in (second["metadata"].get("annotations") or {})
        # A scheduler that is started later would charge the pod to whatever queue this names.
        written = pod_queues.record(second, {QUEUE: "team"})
        with pytest.raises(ApiError, match="may not change while the pod is on a node"):
            await local.patch("Pod", "second", {"metadata": {"annotations": {pod_queues.RECORD: written}}})
        await local.patch("Pod", "second", {"metadata": {"labels": {QUEUE: "team"}}})


async def test_a_record_that_somebody_wrote_beforehand_is_cleared_at_the_binding():
    async with cluster(*definitions()) as local:
        await local.create(queued("p", labels={}, annotations={pod_queues.RECORD: '{"queues":{}}'}))

        async def runs():
            return await placed(local)

        (found,) = await local.eventually(runs)
        assert found["metadata"]["annotations"][pod_queues.RECORD] == ""


async def test_the_label_of_a_pod_that_has_ended_may_change():
    async with cluster(*definitions()) as local:
        await full(local)
        await local.patch("Pod", "first", {"status": {"phase": "Succeeded"}}, subresource="status")
        await local.patch("Pod", "first", {"metadata": {"labels": {QUEUE: None}}})


async def test_the_policy_for_clusters_of_others_names_all_words_and_refuses_their_change(monkeypatch):
    # A server of others has no such rule of its own.
    monkeypatch.setattr(pod_queues, "changes", lambda pod, old: ())
    shipped = [
        document for document in manifests("scheduler") if document["kind"].startswith("ValidatingAdmissionPolicy")
    ]
    for name in (*pod_queues.LABELS, *pod_queues.ANNOTATIONS, pod_queues.RECORD):
        assert json.dumps(shipped[0]).count(f'\\"{name}\\"') >= 2, name
    async with LocalCluster(objects=[objects.node("n")]) as local:
        for document in shipped:
            await local.client.create(kind_of(document["kind"], document["apiVersion"]), document)
        for name, labels, annotations in (
            ("p", {QUEUE: "team"}, {}),
            ("q", {}, {"pod-group-name": "g"}),
            ("r", {}, {}),
        ):
            made = gpus.pod(name, nodeName="n")
            made["metadata"].update(labels=labels, annotations=annotations)
            await local.create(made)
        refused = "what a pod says of its queue and group may not change while it is on a node"

        async def in_force():
            try:
                await local.patch("Pod", "p", {"metadata": {"labels": {QUEUE: "other"}}})
            except ApiError as error:
                return refused in str(error)
            return False

        await local.eventually(in_force)
        with pytest.raises(ApiError, match=refused):
            await local.patch("Pod", "q", {"metadata": {"annotations": {"pod-group-name": None}}})
        with pytest.raises(ApiError, match=refused):
            await local.patch("Pod", "r", {"metadata": {"annotations": {pod_queues.RECORD: "{}"}}})
        await local.patch("Pod", "p", {"metadata": {"labels": {"app": "x"}}})
        await local.patch("Pod", "r", {"metadata": {"labels": {QUEUE: "team"}}})
