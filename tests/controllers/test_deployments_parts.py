"""What a Deployment decides, without a server: sizes, revisions, hashes, and whether it makes progress."""

from datetime import UTC, datetime, timedelta

import pytest

from dray.client.clock import timestamp
from dray.controllers.deployments import revisions, rolling, status, template
from dray.controllers.deployments.revisions import DESIRED, HISTORY, MOST, REVISION

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def deployment(replicas=10, *, surge="25%", unavailable="25%", strategy="RollingUpdate", **rest):
    rolling_update = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {
        "replicas": replicas,
        "progressDeadlineSeconds": 600,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": strategy, **({"rollingUpdate": rolling_update} if strategy == "RollingUpdate" else {})},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
        **rest,
    }
    return {"metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1}, "spec": spec}


def replica_set(name, replicas, available=None, *, age=0, revision=0, desired=None, most=None, **spec):
    numbers = {REVISION: revision, DESIRED: desired, MOST: most}
    annotations = {key: str(value) for key, value in numbers.items() if value}
    created = timestamp(NOW - timedelta(seconds=age))
    available = replicas if available is None else available
    return {
        "metadata": {"name": name, "uid": name, "annotations": annotations, "creationTimestamp": created},
        "spec": {"replicas": replicas, "template": {"metadata": {}, "spec": {}}, **spec},
        "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available},
    }


def sizes(found):
    return {each["metadata"]["name"]: size for each, size in found}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (10, "0%", "0%", (0, 1)),
        (1, "0%", "25%", (0, 1)),
        (3, 1, 0, (1, 0)),
        (2, 0, 5, (0, 2)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_bounds_round_surge_up_and_unavailable_down(replicas, surge, unavailable, expected):
    found = rolling.Bounds.of(deployment(replicas, surge=surge, unavailable=unavailable))
    assert (found.surge, found.unavailable) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (10, None, 3),
        (10, 3, 3),
        (8, 3, 5),
        (0, 4, 10),
        (0, 12, 10),
        (20, 0, 0),
    ],
)
def test_the_newest_grows_into_the_room_there_is(old, new, expected):
    present = replica_set("new", new) if new is not None else None
    everything = [replica_set("old", old), *([present] if present else [])]
    assert rolling.new_size(deployment(10), everything, present) == expected


def test_recreate_has_no_room_to_mind():
    assert rolling.new_size(deployment(10, strategy="Recreate"), [replica_set("old", 10)], None) == 10


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Eight must be available; those of the newest that are not yet hold the old ones back.
        ([("a", 10, 10)], (3, 0), {"a": 8}),
        ([("a", 10, 10)], (3, 3), {"a": 5}),
        ([("a", 8, 8)], (5, 0), {}),
        # Unhealthy ones go first, from the oldest on.
        ([("a", 4, 1), ("b", 6, 6)], (3, 3), {"a": 0, "b": 5}),
        ([("a", 8, 0)], (3, 0), {}),
        ([("a", 10, 0)], (3, 3), {"a": 5}),
        ([("a", 0, 0)], (10, 10), {}),
    ],
)
def test_old_ones_shrink_as_far_as_enough_pods_are_available(old, new, expected):
    earlier = [replica_set(*each, age=100 - place) for place, each in enumerate(old)]
    assert sizes(rolling.old_sizes(deployment(10), earlier, replica_set("new", *new))) == expected


@pytest.mark.parametrize(
    ("replicas", "old", "new", "expected"),
    [
        # Ten of thirteen pods become twenty of 25: both revisions double nearly.
        (20, 8, 5, {"old": 15, "new": 10}),
        (5, 8, 5, {"old": 4, "new": 3}),
        (0, 8, 5, {"old": 0, "new": 0}),
    ],
)
def test_a_deployment_that_is_scaled_during_a_roll_out_keeps_the_shares(replicas, old, new, expected):
    numbers = {"desired": 10, "most": 13}
    found = rolling.scaled_sizes(
        deployment(replicas), [replica_set("old", old, age=9, **numbers)], replica_set("new", new, 0, **numbers)
    )
    assert sizes(found) == expected


def test_the_only_one_with_pods_gets_the_size_and_a_finished_roll_out_leaves_no_others():
    old, new = replica_set("old", 3, desired=3), replica_set("new", 0, desired=3)
    assert sizes(rolling.scaled_sizes(deployment(5), [old], new)) == {"old": 5}
    assert sizes(rolling.scaled_sizes(deployment(5), [replica_set("old", 0)], new)) == {"new": 5}
    done = replica_set("new", 5, 5, desired=5)
    assert sizes(rolling.scaled_sizes(deployment(5), [old], done)) == {"old": 0}
    assert rolling.is_scaled(deployment(5), [old])
    assert not rolling.is_scaled(deployment(3), [old, new])


def test_a_template_is_recognized_whatever_its_hash_and_another_one_has_another():
    wanted = deployment()
    made = template.replica_set(wanted, {}, 1)
    made["metadata"] |= {"uid": "x", "creationTimestamp": timestamp(NOW)}
    assert revisions.newest(wanted, [replica_set("other", 1), made]) is made
    assert template.template_hash({"a": 1}, None) == template.template_hash({"a": 1}, None)
    assert len({template.template_hash({"a": 1}, count) for count in (None, 0, 1)}) == 3


def test_who_becomes_the_newest_again_remembers_its_numbers():
    wanted = deployment()
    wanted["metadata"]["annotations"] = {
        "note": "x",
        REVISION: "4",
        "kubectl.kubernetes.io/last-applied-configuration": "",
    }
    found = replica_set("a", 0, revision=2)
    found["metadata"]["annotations"][HISTORY] = "1"
    assert revisions.annotations_for(wanted, found, 5) == {"note": "x", REVISION: "5", HISTORY: "1,2"}
    # An annotation that is no number counts as none, and a long history loses its beginning.
    found["metadata"]["annotations"] = {REVISION: "3", HISTORY: ",".join(["9" * 10] * 300)}
    kept = revisions.annotations_for(wanted, found, 5)[HISTORY]
    assert len(kept) <= 2000
    assert kept.endswith(",3")


def test_only_idle_revisions_beyond_the_limit_are_deleted():
    old = [replica_set(f"r{each}", 0, revision=each) for each in (3, 1, 2)] + [replica_set("r4", 2, revision=4)]
    found = revisions.surplus(deployment(revisionHistoryLimit=1), old)
    assert [each["metadata"]["name"] for each in found] == ["r1", "r2", "r3"]
    assert revisions.surplus(deployment(revisionHistoryLimit=0), old[3:]) == []


def progressing(reason, *, ago, value="True"):
    at = timestamp(NOW - timedelta(seconds=ago))
    return {"type": "Progressing", "status": value, "reason": reason, "lastUpdateTime": at, "lastTransitionTime": at}


@pytest.mark.parametrize(
    ("before", "available", "reason", "since"),
    [
        ([progressing("NewReplicaSetCreated", ago=10)], 1, "ReplicaSetUpdated", 0),
        ([progressing("ReplicaSetUpdated", ago=10)], 0, "ReplicaSetUpdated", 10),
        ([progressing("ReplicaSetUpdated", ago=601)], 0, "ProgressDeadlineExceeded", 0),
        ([progressing("ProgressDeadlineExceeded", ago=50, value="False")], 0, "ProgressDeadlineExceeded", 50),
        ([progressing("ProgressDeadlineExceeded", ago=50, value="False")], 2, "NewReplicaSetAvailable", 0),
        ([progressing("NewReplicaSetAvailable", ago=5000)], 0, "NewReplicaSetAvailable", 5000),
    ],
)
def test_progress(before, available, reason, since):
    wanted = deployment(2)
    numbers = {"replicas": 2, "updatedReplicas": 2, "observedGeneration": 1}
    wanted["status"] = {**numbers, "conditions": before}
    new = replica_set("new", 2, available)
    found = status.rolled_out(wanted, [new], new, NOW)
    (told,) = [each for each in found["conditions"] if each["type"] == "Progressing"]
    assert (told["reason"], told["lastUpdateTime"]) == (reason, timestamp(NOW - timedelta(seconds=since)))


def test_a_failure_of_a_replica_set_is_shown():
    new = replica_set("new", 2, 0)
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    new["status"]["conditions"] = [{**failure, "lastTransitionTime": timestamp(NOW)}]
    found = status.rolled_out(deployment(2), [new], new, NOW)
    (told,) = [each for each in found["conditions"] if each["type"] == "ReplicaFailure"]
    assert failure.items() <= told.items()


def test_it_waits_for_its_deadline_and_for_nothing_once_that_is_over():
    wanted = deployment(2)
    for before, expected in (
        (progressing("ReplicaSetUpdated", ago=100), 501.0),
        (progressing("ProgressDeadlineExceeded", ago=100), None),
        (progressing("NewReplicaSetAvailable", ago=100), None),
    ):
        wanted["status"] = {"conditions": [before]}
        assert status.until_deadline(wanted, NOW) == expected
    assert status.until_deadline({**wanted, "spec": {**wanted["spec"], "progressDeadlineSeconds": None}}, NOW) is None
