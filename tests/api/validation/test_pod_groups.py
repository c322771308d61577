"""Pod groups and workloads."""

import pytest

from tests.api.objects import COMPOSITE, POD_GROUP, WORKLOAD, causes, changed, create, update


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"spec.schedulingPolicy": {}}, {"spec.schedulingPolicy Invalid"}),
        ({"spec.schedulingPolicy.basic": {}}, {"spec.schedulingPolicy Invalid"}),
        ({"spec.schedulingPolicy.gang.minCount": 0}, {"spec.schedulingPolicy.gang.minCount Required"}),
        ({"spec.schedulingPolicy.gang.minCount": -1}, {"spec.schedulingPolicy.gang.minCount Invalid"}),
        ({"spec.parentCompositePodGroupName": "p"}, {"spec.workloadRef Required"}),
        (
            {"spec.workloadRef": {"workloadName": "W", "templateName": ""}},
            {"spec.workloadRef.workloadName Invalid", "spec.workloadRef.templateName Required"},
        ),
        ({"spec.resourceClaims.0.resourceClaimName": "c"}, {"spec.resourceClaims[0] Invalid"}),
        ({"spec.disruptionMode": {"single": {}, "all": {}}}, {"spec.disruptionMode Invalid"}),
        ({"spec.priority": 1_000_000_001}, {"spec.priority Invalid"}),
        ({"spec.preemptionPolicy": "Always"}, {"spec.preemptionPolicy NotSupported"}),
        (
            {"spec.schedulingConstraints": {"topology": [{"key": "a b"}]}},
            {"spec.schedulingConstraints.topology[0].key Invalid"},
        ),
        (
            {"spec.schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            {"spec.schedulingConstraints.topology TooMany"},
        ),
    ],
)
def test_pod_groups(changes, expected):
    assert causes(create(changed(POD_GROUP, changes))) == expected


def test_only_the_size_of_a_gang_may_change():
    stored = create(POD_GROUP).object
    assert stored["spec"]["disruptionMode"] == {"single": {}}
    assert stored["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    size = "spec.schedulingPolicy.gang.minCount"
    assert causes(update(changed(stored, {size: 5}), stored)) == set()
    other = changed(stored, {"spec.schedulingPolicy": {"basic": {}}, "spec.priority": 3, "spec.resourceClaims": []})
    assert causes(update(other, stored)) == {
        "spec.schedulingPolicy.basic Invalid",
        "spec.schedulingPolicy.gang Invalid",
        "spec.priority Invalid",
        "spec.resourceClaims Invalid",
    }
    composite = create(COMPOSITE).object
    larger = changed(composite, {"spec.schedulingPolicy.gang.minGroupCount": 5})
    assert causes(update(larger, composite)) == {"spec.schedulingPolicy Invalid"}


def test_claims_of_a_pod_group_in_its_status():
    entries = [{"name": "gpu", "resourceClaimName": "c"}, {"name": "nic", "resourceClaimName": "C"}]
    assert causes(update(changed(POD_GROUP, {"status.resourceClaimStatuses": entries}), POD_GROUP, "status")) == {
        "status.resourceClaimStatuses[1].name Invalid",
        "status.resourceClaimStatuses[1].resourceClaimName Invalid",
    }


def composite_template(name, **children):
    return {"name": name, "schedulingPolicy": {"basic": {}}, **children}


def nested(depth):
    inner = {"podGroupTemplates": [{"name": "leaf", "schedulingPolicy": {"basic": {}}}]}
    for level in reversed(range(depth)):
        inner = {"compositePodGroupTemplates": [composite_template(f"c{level}", **inner)]}
    return inner


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (WORKLOAD["spec"], set()),
        ({}, {"spec Invalid"}),
        ({**WORKLOAD["spec"], **nested(1)}, {"spec Invalid"}),
        (nested(3), set()),
        (
            nested(4),
            {
                "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].compositePodGroupTemplates[0]"
                ".compositePodGroupTemplates[0] Invalid"
            },
        ),
        (
            {"compositePodGroupTemplates": [composite_template("a")]},
            {"spec.compositePodGroupTemplates[0] Invalid"},
        ),
        (
            {"compositePodGroupTemplates": [composite_template("leaf", **nested(0))]},
            {"spec.compositePodGroupTemplates[0].podGroupTemplates[0].name Duplicate"},
        ),
        (
            {**WORKLOAD["spec"], "controllerRef": {"kind": "", "name": "a/b"}},
            {
                "spec.controllerRef.kind Required",
                "spec.controllerRef.name Invalid",
            },
        ),
    ],
)
def test_workloads(spec, expected):
    assert causes(create({**WORKLOAD, "spec": spec})) == expected


def test_priorities_agree_within_a_workload():
    assert causes(create(changed(WORKLOAD, {"spec.podGroupTemplates.0.priority": 5}))) == {"spec Invalid"}


def test_templates_of_a_workload_are_fixed():
    other = changed(
        WORKLOAD, {"spec.podGroupTemplates.0.name": "c", "spec.podGroupTemplates.1.disruptionMode": {"all": {}}}
    )
    assert causes(update(other, WORKLOAD)) == {
        "spec.podGroupTemplates[0] Forbidden",
        "spec.podGroupTemplates Forbidden",
        "spec.podGroupTemplates[1].disruptionMode Invalid",
    }
