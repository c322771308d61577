"""ReplicaSets, ReplicationControllers, Deployments and PodTemplates: defaults, and what is refused."""

import pytest

from tests.api.objects import causes, changed, create, update

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}


def workload(kind, api_version="apps/v1", **spec):
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE, **spec},
    }


REPLICA_SET = workload("ReplicaSet")
DEPLOYMENT = workload("Deployment")
CONTROLLER = workload("ReplicationController", "v1", selector={"app": "web"})
ROLLING = "spec.strategy.rollingUpdate"
OF_BOTH = [
    ({}, set()),
    ({"spec.replicas": -1}, {"spec.replicas Invalid"}),
    ({"spec.minReadySeconds": -1}, {"spec.minReadySeconds Invalid"}),
    ({"spec.selector": None}, {"spec.selector Required", "spec.template.metadata.labels Invalid"}),
    ({"spec.selector": {}}, {"spec.selector Invalid"}),
    ({"spec.selector": {"matchLabels": {"app": "db"}}}, {"spec.template.metadata.labels Invalid"}),
    ({"spec.template.spec.containers": []}, {"spec.template.spec.containers Required"}),
    ({"spec.template.spec.restartPolicy": "Never"}, {"spec.template.spec.restartPolicy NotSupported"}),
    ({"spec.template.spec.activeDeadlineSeconds": 5}, {"spec.template.spec.activeDeadlineSeconds Forbidden"}),
]


@pytest.mark.parametrize("start", [REPLICA_SET, DEPLOYMENT], ids=["ReplicaSet", "Deployment"])
@pytest.mark.parametrize(("changes", "expected"), OF_BOTH)
def test_kinds_of_apps(start, changes, expected):
    assert causes(create(changed(start, changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"spec.selector": {"app": "db"}}, {"spec.template.metadata.labels Invalid"}),
        ({"spec.template": None}, {"spec.template Required"}),
        ({"spec.template": None, "spec.selector": None}, {"spec.template Required", "spec.selector Required"}),
        ({"spec.replicas": -1}, {"spec.replicas Invalid"}),
    ],
)
def test_replication_controllers(changes, expected):
    assert causes(create(changed(CONTROLLER, changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.revisionHistoryLimit": -1}, {"spec.revisionHistoryLimit Invalid"}),
        ({"spec.progressDeadlineSeconds": 5, "spec.minReadySeconds": 5}, {"spec.progressDeadlineSeconds Invalid"}),
        ({"spec.strategy": {"type": "Slowly"}}, {"spec.strategy NotSupported"}),
        ({"spec.strategy": {"type": "Recreate"}}, set()),
        ({"spec.strategy": {"type": "Recreate", "rollingUpdate": {}}}, {f"{ROLLING} Forbidden"}),
        (
            {"spec.strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            {f"{ROLLING}.maxUnavailable Invalid"},
        ),
        ({"spec.strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 1}}}, set()),
        ({"spec.strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}}, {f"{ROLLING}.maxUnavailable Invalid"}),
        ({"spec.strategy": {"rollingUpdate": {"maxSurge": "200%"}}}, set()),
        ({"spec.strategy": {"rollingUpdate": {"maxSurge": "a few"}}}, {f"{ROLLING}.maxSurge Invalid"}),
        ({"spec.strategy": {"rollingUpdate": {"maxSurge": -1}}}, {f"{ROLLING}.maxSurge Invalid"}),
    ],
)
def test_deployments(changes, expected):
    assert causes(create(changed(DEPLOYMENT, changes))) == expected


def test_the_selector_of_the_kinds_of_apps_never_changes():
    both = {"spec.template.metadata.labels": {"app": "web", "tier": "db"}}
    selector = {"spec.selector": {"matchLabels": {"tier": "db"}}}
    for start in (REPLICA_SET, DEPLOYMENT):
        assert causes(update(changed(start, {**both, **selector}), changed(start, both))) == {"spec.selector Invalid"}
    changes = {**both, "spec.selector": {"tier": "db"}}
    assert causes(update(changed(CONTROLLER, changes), changed(CONTROLLER, both))) == set()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"observedGeneration": -1}, {"status.observedGeneration Invalid"}),
        ({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}, set()),
        ({"replicas": 1, "readyReplicas": 2}, {"status.readyReplicas Invalid"}),
        ({"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}, {"status.availableReplicas Invalid"}),
    ],
)
def test_statuses(status, expected):
    for start in (REPLICA_SET, CONTROLLER, DEPLOYMENT):
        assert causes(update(changed(start, {"status": status}), start, "status")) == expected


def test_a_collision_count_only_grows():
    old = changed(DEPLOYMENT, {"status": {"collisionCount": 2}})
    assert causes(update(changed(old, {"status": {"collisionCount": 1}}), old, "status")) == {
        "status.collisionCount Invalid"
    }
