"""DaemonSets, StatefulSets and ControllerRevisions: defaults, what is refused, and what may change."""

import pytest

from dray.api.intake import Accepted
from dray.testing import objects
from tests.api.objects import causes, changed, create, update

PLACE = {"metadata.namespace": "default"}
DAEMONS = changed(objects.daemon_set("d"), PLACE)
STATEFUL = changed(objects.stateful_set("s"), PLACE)
REVISION = {
    "apiVersion": "apps/v1",
    "kind": "ControllerRevision",
    "metadata": {"name": "r", "namespace": "default"},
    "data": {"spec": {}},
    "revision": 1,
}
STRATEGY = "spec.updateStrategy"
ROLLING = f"{STRATEGY}.rollingUpdate"
CLAIM = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}


def accepted(document):
    verdict = create(document)
    assert isinstance(verdict, Accepted), verdict
    return verdict.object


def test_defaults_of_a_daemon_set():
    spec = accepted(DAEMONS)["spec"]
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    assert spec["revisionHistoryLimit"] == 10
    assert spec["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "rollingUpdate" not in accepted(changed(DAEMONS, {f"{STRATEGY}.type": "OnDelete"}))["spec"]["updateStrategy"]


def test_defaults_of_a_stateful_set():
    spec = accepted(changed(STATEFUL, {"spec.volumeClaimTemplates": [CLAIM]}))["spec"]
    assert {name: spec[name] for name in spec if name not in ("template", "selector", "volumeClaimTemplates")} == {
        "serviceName": "s",
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "revisionHistoryLimit": 10,
    }
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["kind"] == "PersistentVolumeClaim"
    assert claim["spec"]["volumeMode"] == "Filesystem"
    assert claim["status"] == {"phase": "Pending"}


@pytest.mark.parametrize("document", [DAEMONS, STATEFUL])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"spec.selector.matchLabels": {"app": "other"}}, {"spec.template.metadata.labels Invalid"}),
        ({"spec.selector": {}}, {"spec.selector Invalid"}),
        ({"spec.template.spec.restartPolicy": "Never"}, {"spec.template.spec.restartPolicy NotSupported"}),
        ({"spec.template.spec.activeDeadlineSeconds": 5}, {"spec.template.spec.activeDeadlineSeconds Forbidden"}),
        ({"spec.minReadySeconds": -1}, {"spec.minReadySeconds Invalid"}),
        ({"spec.revisionHistoryLimit": -1}, {"spec.revisionHistoryLimit Invalid"}),
        ({f"{ROLLING}.maxUnavailable": "half"}, {f"{ROLLING}.maxUnavailable Invalid"}),
        ({f"{ROLLING}.maxUnavailable": "101%"}, {f"{ROLLING}.maxUnavailable Invalid"}),
        ({f"{ROLLING}.maxUnavailable": "50%"}, set()),
    ],
)
def test_both(document, changes, expected):
    document = changed(document, {ROLLING: {}})
    assert causes(create(changed(document, changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({f"{STRATEGY}.type": "Recreate"}, {f"{STRATEGY} NotSupported"}),
        ({f"{ROLLING}.maxSurge": 1}, {f"{ROLLING}.maxSurge Invalid"}),
        ({f"{ROLLING}.maxUnavailable": 0, f"{ROLLING}.maxSurge": "10%"}, set()),
        ({f"{ROLLING}.maxUnavailable": "0%"}, {f"{ROLLING}.maxUnavailable Required"}),
        ({"spec.selector": None}, {"spec.template.metadata.labels Invalid"}),
    ],
)
def test_daemon_sets(changes, expected):
    assert causes(create(changed(changed(DAEMONS, {ROLLING: {}}), changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.podManagementPolicy": "Random"}, {"spec.podManagementPolicy Invalid"}),
        ({f"{STRATEGY}.type": "Replace"}, {f"{STRATEGY} Invalid"}),
        ({f"{STRATEGY}.type": "OnDelete"}, {f"{ROLLING} Invalid"}),
        ({f"{STRATEGY}.type": "Recreate"}, {f"{ROLLING} Invalid"}),
        ({STRATEGY: {"type": "Recreate"}}, set()),
        ({f"{ROLLING}.partition": -1}, {f"{ROLLING}.partition Invalid"}),
        ({f"{ROLLING}.maxUnavailable": 0}, {f"{ROLLING}.maxUnavailable Invalid"}),
        ({"spec.replicas": -1}, {"spec.replicas Invalid"}),
        ({"spec.ordinals": {"start": -1}}, {"spec.ordinals.start Invalid"}),
        ({"spec.serviceName": "a.b"}, {"spec.serviceName Invalid"}),
        ({"metadata.name": "a.b"}, {"metadata.name Invalid"}),
        (
            {"spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Never"}},
            {"spec.persistentVolumeClaimRetentionPolicy.whenDeleted NotSupported"},
        ),
        ({"spec.selector": None}, {"spec.selector Required", "spec.template.metadata.labels Invalid"}),
    ],
)
def test_stateful_sets(changes, expected):
    assert causes(create(changed(changed(STATEFUL, {ROLLING: {}}), changes))) == expected


def test_what_is_in_the_pods_of_a_stateful_set_is_looked_at_when_they_are_made():
    mounts = {"spec.template.spec.containers.0.volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    assert causes(create(changed(STATEFUL, {**mounts, "spec.volumeClaimTemplates": [CLAIM]}))) == set()
    assert causes(create(changed(STATEFUL, {"spec.template.spec.containers": []}))) == set()
    assert causes(create(changed(DAEMONS, mounts))) == {
        "spec.template.spec.containers[0].volumeMounts[0].name NotFound"
    }
    assert causes(create(changed(STATEFUL, {"spec.template.metadata.annotations": {"a b": ""}}))) == {
        "spec.template.annotations Invalid"
    }


def test_the_selector_of_a_daemon_set_stays():
    labels = {"app": "d", "more": "x"}
    other = changed(DAEMONS, {"spec.selector.matchLabels": labels, "spec.template.metadata.labels": labels})
    assert causes(update(other, DAEMONS)) == {"spec.selector Invalid"}
    assert causes(update(changed(DAEMONS, {"spec.minReadySeconds": 3}), DAEMONS)) == set()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {
                "spec.replicas": 5,
                "spec.ordinals": {"start": 2},
                "spec.minReadySeconds": 3,
                "spec.template.spec.hostNetwork": True,
                "spec.revisionHistoryLimit": 2,
                "spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
                f"{ROLLING}": {"partition": 1},
            },
            set(),
        ),
        ({"spec.serviceName": "other"}, {"spec Forbidden"}),
        ({"spec.podManagementPolicy": "Parallel"}, {"spec Forbidden"}),
        ({"spec.volumeClaimTemplates": [CLAIM]}, {"spec Forbidden"}),
    ],
)
def test_what_may_change_of_a_stateful_set(changes, expected):
    verdict = update(changed(STATEFUL, changes), STATEFUL)
    assert causes(verdict) == expected


def test_status():
    assert causes(update(changed(DAEMONS, {"status.numberReady": -1}), DAEMONS, "status")) == {
        "status.numberReady Invalid"
    }
    status = {"replicas": 1, "readyReplicas": 2, "availableReplicas": 1}
    assert causes(update(changed(STATEFUL, {"status": status}), STATEFUL, "status")) == {"status.readyReplicas Invalid"}
    less = causes(update(changed(STATEFUL, {"status": {"replicas": -1}}), STATEFUL, "status"))
    assert {"status.replicas Invalid", "status.readyReplicas Invalid"} <= less
    counted = changed(DAEMONS, {"status.collisionCount": 2})
    assert causes(update(changed(DAEMONS, {"status.collisionCount": 1}), counted, "status")) == {
        "status.collisionCount Invalid"
    }


def test_revisions_never_change():
    assert causes(create(REVISION)) == set()
    assert causes(create(changed(REVISION, {"revision": -1, "data": None}))) == {"revision Invalid", "data Required"}
    assert causes(update(changed(REVISION, {"revision": 3}), REVISION)) == set()
    assert causes(update(changed(REVISION, {"data": {"spec": {"a": 1}}}), REVISION)) == {"data Invalid"}
