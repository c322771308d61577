"""The functions of `import dray`: what they take, and what they refuse."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import dray
from dray.snapshot.files import Refusal
from dray.snapshot.in_memory import in_memory
from dray.testing import objects
from tests import gpus
from tests.planning.scenes import node, running

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
GROUP: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
}


def lab() -> dray.Cluster:
    held = running("old", "a", "gpu-0", owner="")
    return dray.Cluster.from_objects([gpus.device_class("gpu"), *node("a", 2), *held])


def test_objects_keep_their_nodes_and_allocations() -> None:
    states = {each.place[2]: each.state for each in dray.devices(lab()).states}
    assert states == {"gpu-0": "allocated", "gpu-1": "free"}
    assert dray.explain("pod/old", lab()).outcome == "on node a"


def test_manifests_are_placed_beside_what_runs() -> None:
    claim = objects.claim("two", objects.request("gpu", deviceClassName="gpu", count=2))
    assert not dray.allocate(claim, lab()).fits
    told = dray.explain("claim/two", lab(), manifests=claim).text
    assert "needs 2, 1 available" in told


def test_explain_claim_lists_only_pods_of_its_namespace() -> None:
    claim = objects.claim("shared", objects.request("gpu", deviceClassName="gpu"))
    entries = [{"name": "gpu", "resourceClaimName": "shared"}]
    stranger = {
        **POD,
        "metadata": {"name": "stranger", "namespace": "other"},
        "spec": {**POD["spec"], "resourceClaims": entries},
    }
    cluster = dray.Cluster.from_objects([gpus.device_class("gpu"), *node("a", 2), claim, stranger])
    assert dray.explain("claim/shared", cluster).outcome == "not allocated; no pod uses it"


def test_explain_looks_for_manifests_in_the_namespace() -> None:
    claims = [
        {**objects.claim("two", objects.request("gpu", deviceClassName="gpu", count=count)), "metadata": metadata}
        for count, metadata in ((1, {"name": "two", "namespace": "a"}), (2, {"name": "two", "namespace": "b"}))
    ]
    explained = [dray.explain("two", lab(), manifests=claims, namespace=namespace).namespace for namespace in "ab"]
    assert explained == ["a", "b"]
    with pytest.raises(dray.InvalidInput, match="claim a/two or claim b/two; say which, as in claim/a/two"):
        dray.explain("claim/two", lab(), manifests=claims)
    assert dray.explain("claim/a/two", lab(), manifests=claims, namespace="b").namespace == "a"
    with pytest.raises(dray.InvalidInput, match="no claim or pod two in namespace c of the files needs devices"):
        dray.explain("two", lab(), manifests=claims, namespace="c")


def test_explain_podgroup_asks_the_scheduler_of_its_own_namespace() -> None:
    def member(namespace: str, scheduler: str) -> dict[str, Any]:
        spec = {**POD["spec"], "schedulerName": scheduler, "schedulingGroup": {"podGroupName": "gang"}}
        return {**POD, "metadata": {"name": "member", "namespace": namespace}, "spec": spec}

    groups = [{**GROUP, "metadata": {"name": "gang", "namespace": namespace}} for namespace in ("other", "default")]
    pods = [member("other", "elsewhere"), member("default", "mine")]
    cluster = dray.Cluster.from_objects([*node("a", 2), *groups, *pods])
    explained = dray.explain("podgroup/gang", cluster)
    assert (explained.outcome, explained.document["group"]["waiting"]) == ("fits", 1)


def refusing(kind: str, status: int) -> dray.Cluster:
    """Returns a cluster with one node that refuses to list a kind."""
    stored = in_memory({"Node": node("a", 1)[:1], "Pod": []}, 0.0)
    refusal = Refusal(status, "Refused", f"{kind} refused")
    header = msgspec.structs.replace(
        stored.header,
        kinds=tuple(
            msgspec.structs.replace(listed, refusal=refusal) if listed.kind == kind else listed
            for listed in stored.header.kinds
        ),
    )
    return dray.Cluster.from_stored(msgspec.structs.replace(stored, header=header))


def test_plan_notes_that_priority_classes_may_not_be_read() -> None:
    assert dray.plan(POD, refusing("PriorityClass", 403)).notes == ("not taken into account: PriorityClass refused",)


def test_errors_of_the_server_are_not_taken_for_missing_rights() -> None:
    with pytest.raises(dray.ClientError, match="PriorityClass refused"):
        dray.plan(POD, refusing("PriorityClass", 500))
    with pytest.raises(dray.ClientError, match="Node refused"):
        dray.devices(refusing("Node", 500), nodes=["other"])
    assert not dray.devices(refusing("Node", 403), nodes=["other"]).states


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 3}, 3),
        ({"parallelism": 2, "completions": 3}, 2),
        ({"parallelism": 0, "completions": 3}, 0),
        ({"completions": 3}, 1),
    ],
)
def test_plan_counts_the_pods_that_a_job_runs_at_once(spec: dict[str, Any], expected: int) -> None:
    template = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {**spec, "template": template}}
    cron_job = {**job, "kind": "CronJob", "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": job["spec"]}}}
    for manifest in (job, cron_job):
        assert len(dray.plan(manifest, lab(), seconds=0).pods) == expected


async def test_questions_may_be_asked_inside_an_event_loop() -> None:
    assert dray.plan(POD, lab()).pods[0].node == "a"


def test_manifests_may_be_paths_and_text(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n")
    fleet = dray.Cluster.from_fleet("p5.48xlarge=1")
    for manifests in (file, str(file), file.read_text(), [file]):
        assert dray.plan(manifests, fleet).verdict == "Fits"


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (lambda: dray.plan("nowhere.yaml", lab()), "nowhere.yaml: cannot read: no such file or directory"),
        (lambda: dray.plan(POD, lab(), policy="packs"), "policy packs not found; did you mean pack?"),
        (lambda: dray.plan(POD, lab(), quota=["x"]), "write QUEUE=RESOURCE:AMOUNT"),
        (lambda: dray.explain("pod/nobody", lab()), "pod nobody not found in namespace default"),
        (lambda: dray.devices(lab(), nodes=["b"]), "node b not found"),
        (lambda: dray.queue("", lab()), "this cluster has no queues"),
        (lambda: dray.topology(lab(), node="b"), "no devices on node b"),
        (lambda: dray.lint([3]), "int is no manifest"),
        (lambda: dray.plan(3), "int is no manifest"),
        (lambda: dray.Cluster.from_snapshot("nowhere"), "cannot read nowhere"),
        (lambda: dray.Cluster.from_fleet("p5.48xlarg=1"), "did you mean p5.48xlarge?"),
    ],
)
def test_wrong_questions_name_the_problem(question, problem) -> None:
    with pytest.raises(dray.InvalidInput) as caught:
        question()
    assert problem in str(caught.value)
