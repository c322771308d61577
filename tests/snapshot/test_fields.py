"""Fields of a snapshot: annotations that a front end of groups reads are kept."""

import pytest

from dray.scheduling.groups.front_ends import APIS
from dray.snapshot.fields import ANNOTATIONS, is_kept_event, kept


def test_marks_of_groups_are_kept_as_labels_or_annotations():
    for api in APIS.values():
        for mark in (*api.pod_marks, *api.unsupported_annotations):
            obj = {"metadata": {"name": "p", "labels": {mark: "x"}}}
            assert kept("Pod", obj)["metadata"]["labels"] == {mark: "x"}
        assert set(api.unsupported_annotations) <= ANNOTATIONS


def test_annotations_of_others_are_left_out_and_of_kai_kept_by_name():
    annotations = {"kai.scheduler/topology": "t", "kai.scheduler/new": "secret", "example.com/a": "secret"}
    made = kept("Pod", {"metadata": {"name": "p", "annotations": annotations}})
    assert made["metadata"]["annotations"] == {"kai.scheduler/topology": "t", "kai.scheduler/new": ""}


def test_messages_of_foreign_conditions_are_left_out():
    conditions = [{"type": each, "status": "False", "message": each} for each in ("PodScheduled", "example.com/ready")]
    made = kept("Pod", {"metadata": {"name": "p"}, "status": {"conditions": conditions}})
    assert [each.get("message") for each in made["status"]["conditions"]] == ["PodScheduled", None]


def test_values_of_the_wrong_type_do_not_matter():
    assert kept("Pod", {"metadata": None, "spec": [1], "status": "x"})["spec"] == []


KINDS = (
    *("ResourceFlavor", "ClusterQueue", "LocalQueue", "Cohort", "WorkloadPriorityClass", "Queue", "Topology"),
    *("PodGroup", "PodDisruptionBudget", "SomethingElse"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_the_scheduler_does_not_know_are_left_out(kind):
    """Definitions of Kueue and KAI may allow any field."""
    conditions = [{"type": "Active", "status": "False", "reason": "R", "message": "secret"}]
    status = {"conditions": conditions, "occupiedBy": "secret", "extra": {"a": "secret"}}
    spec = {"displayName": "secret", "extra": ["secret"]} if kind != "PodDisruptionBudget" else {}
    made = kept(
        kind, {"metadata": {"name": "a"}, "spec": spec, "status": status, "data": "secret", "description": "secret"}
    )
    assert "secret" not in str(made)


def test_fields_of_queues_and_groups_that_the_scheduler_reads_are_kept():
    spec = {"parentQueue": "a", "resources": {"gpu": {"quota": 1}}, "reclaimMinRuntime": "5m"}
    assert kept("Queue", {"metadata": {"name": "a"}, "spec": spec})["spec"] == spec
    spec = {"minMember": 4, "subGroups": [{"name": "b"}], "queue": "q", "schedulingPolicy": {"gang": {"minCount": 2}}}
    assert kept("PodGroup", {"metadata": {"name": "a"}, "spec": spec})["spec"] == spec
    usage = {"fairSharing": {"admissionFairSharingStatus": {"consumedResources": {"cpu": "1"}}}}
    assert (
        kept("LocalQueue", {"metadata": {"name": "a"}, "spec": {"clusterQueue": "c"}, "status": usage})["status"]
        == usage
    )


def test_events_about_objects_that_explanations_do_not_read_are_left_out():
    """Other programs use the same reasons for their own objects, with any message."""
    event = {"reason": "FailedCreate", "message": "secret"}
    assert is_kept_event({**event, "involvedObject": {"kind": "ReplicaSet"}})
    assert is_kept_event({**event, "involvedObject": {"kind": "ClusterQueue"}})
    assert not is_kept_event({**event, "involvedObject": {"kind": "Database"}})
    assert not is_kept_event({**event, "involvedObject": {"kind": "Pod"}, "reason": "Unhealthy"})
    assert not is_kept_event(event)
