"""Validation of updates and status updates, and of the kinds that the corpus does not reach."""

import pytest

from .objects import (
    CLAIM,
    CLASS,
    COMPOSITE,
    POD,
    POD_GROUP,
    POOL_REQUEST,
    RULE,
    SLICE,
    TEMPLATE,
    WORKLOAD,
    causes,
    changed,
    create,
    update,
)

RESULT = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "a"}
ALLOCATED = changed(CLAIM, {"status": {"allocation": {"devices": {"results": [RESULT]}}}})
RESERVED = changed(ALLOCATED, {"status.reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]})
CONDITION = {"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
REQUEST = "spec.devices.requests.0.exactly"
DEVICE_A = "spec.devices.0"


def test_a_claim_keeps_its_spec():
    assert causes(update(changed(CLAIM, {f"{REQUEST}.count": 2}), CLAIM)) == {"spec Invalid"}
    assert causes(update(changed(CLAIM, {"metadata.labels": {"a": "b"}}), CLAIM)) == set()


def test_what_is_stored_of_a_claim_is_not_judged_again():
    stored = changed(CLAIM, {f"{REQUEST}.deviceClassName": "Not Valid"})
    assert causes(create(stored)) != set()
    assert causes(update(changed(stored, {"metadata.labels": {"a": "b"}}), stored)) == set()


def test_a_template_is_judged_again():
    stored = changed(TEMPLATE, {"spec.spec.devices.requests.0.name": "Not Valid"})
    assert causes(update(stored, stored)) == {"spec.spec.devices.requests[0].name Invalid"}
    assert causes(update(changed(TEMPLATE, {"spec.metadata.labels": {"a": "b"}}), TEMPLATE)) == {"spec Invalid"}


@pytest.mark.parametrize("path", ["metadata.uid", "metadata.creationTimestamp"])
def test_what_the_server_owns_is_restored(path):
    stored = changed(CLAIM, {path: "2026-01-01T00:00:00Z"})
    assert update(CLAIM, stored).object["metadata"][path.split(".")[1]] == "2026-01-01T00:00:00Z"


def test_finalizers_cannot_be_added_to_what_is_being_deleted():
    stored = changed(CLAIM, {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z", "metadata.finalizers": ["a.io/b"]})
    assert causes(update(changed(stored, {"metadata.finalizers": ["a.io/b", "a.io/c"]}), stored)) == {
        "metadata.finalizers Forbidden"
    }
    assert causes(update(changed(stored, {"metadata.finalizers": []}), stored)) == set()


@pytest.mark.parametrize(
    ("stored", "changes", "expected"),
    [
        (CLAIM, {"status": ALLOCATED["status"]}, set()),
        (CLAIM, {"status": {"allocation": {}}}, set()),
        (CLAIM, {"status": {"reservedFor": RESERVED["status"]["reservedFor"]}}, {"status.reservedFor Forbidden"}),
        (ALLOCATED, {"status.allocation.devices.results.0.device": "b"}, {"status.allocation Invalid"}),
        (
            ALLOCATED,
            {"status.allocation.allocationTimestamp": "2026-01-01T00:00:00Z"},
            {"status.allocation Invalid"},
        ),
        (ALLOCATED, {"status": {}}, set()),
        (RESERVED, {"status.allocation": None}, {"status.reservedFor Forbidden"}),
        (RESERVED, {"status": {}}, set()),
        (
            ALLOCATED,
            {"status.devices": [{**RESULT, "request": None, "device": "b"}]},
            {"status.devices[0] Invalid"},
        ),
        (
            CLAIM,
            {
                "status": {
                    "allocation": {
                        "devices": {
                            "results": [
                                {
                                    **RESULT,
                                    "skipNodeOperations": ["NodePrepareResources", "X"],
                                    "shareID": "no",
                                    "bindingConditions": ["a"],
                                    "tolerations": [{"operator": "Exists", "value": "v"}],
                                }
                            ]
                        }
                    }
                }
            },
            {
                "status.allocation.devices.results[0].skipNodeOperations[1] NotSupported",
                "status.allocation.devices.results[0].skipNodeOperations Invalid",
                "status.allocation.devices.results[0].shareID Invalid",
                "status.allocation.devices.results[0].bindingFailureConditions Invalid",
                "status.allocation.devices.results[0].tolerations[0].value Invalid",
            },
        ),
    ],
)
def test_status_of_a_claim(stored, changes, expected):
    document = changed(stored, changes)
    for device in document["status"].get("devices") or []:
        device.pop("request", None)
    assert causes(update(document, stored, "status")) == expected


def test_a_deleted_claim_takes_no_new_consumers():
    stored = changed(RESERVED, {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
    more = [*RESERVED["status"]["reservedFor"], {"resource": "pods", "name": "q", "uid": "2"}]
    assert causes(update(changed(stored, {"status.reservedFor": more}), stored, "status")) == {
        "status.reservedFor Forbidden"
    }
    assert causes(update(changed(stored, {"status.reservedFor": []}), stored, "status")) == set()


def test_a_status_update_touches_nothing_else():
    document = changed(ALLOCATED, {f"{REQUEST}.count": 9, "metadata.labels": {"a": "b"}})
    accepted = update(document, CLAIM, "status").object
    assert accepted["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert "labels" not in accepted["metadata"]
    assert "status" not in update(ALLOCATED, CLAIM).object or update(ALLOCATED, CLAIM).object["status"] == {}


def test_device_status_goes_with_the_allocation():
    status = {"driver": "d.example.com", "pool": "p", "device": "a"}
    stored = changed(ALLOCATED, {"status.devices": [status]})
    accepted = update(changed(stored, {"status.allocation": None}), stored, "status")
    assert accepted.object["status"] == {}


def test_admin_results_need_the_label_or_an_earlier_grant():
    granted = changed(ALLOCATED, {"status.allocation.devices.results.0.adminAccess": True})
    path = "status.allocation.devices.results[0].adminAccess Forbidden"
    assert causes(update(granted, CLAIM, "status")) == {path}
    assert causes(update(granted, CLAIM, "status", admin=True)) == set()
    reserved = changed(granted, {"status.reservedFor": RESERVED["status"]["reservedFor"]})
    assert causes(update(reserved, granted, "status")) == set()


@pytest.mark.parametrize(
    ("ip", "fine"),
    [
        ("10.9.8.7/24", True),
        ("10.9.8.0/24", True),
        ("2001:db8::1/64", True),
        ("10.9.8.7", False),
        ("10.9.8.07/24", False),
        ("2001:DB8::1/64", False),
        ("10.9.8.7/255.255.255.0", False),
    ],
)
def test_addresses_of_a_device(ip, fine):
    device = {"driver": "d.example.com", "pool": "p", "device": "a", "networkData": {"ips": [ip]}}
    found = causes(update(changed(ALLOCATED, {"status.devices": [device]}), ALLOCATED, "status"))
    assert found == (set() if fine else {"status.devices[0].networkData.ips[0] Invalid"})


def test_a_class_is_ratcheted_by_list():
    long = {"x": "y" * 11000}
    stored = changed(CLASS, {"spec.config.0.opaque.parameters": long})
    assert causes(create(stored)) == {"spec.config[0].opaque.parameters TooLong"}
    assert causes(update(changed(stored, {"spec.selectors": []}), stored)) == set()
    other = changed(stored, {"spec.config.0.opaque.driver": "e.example.com"})
    assert causes(update(other, stored)) == {"spec.config[0].opaque.parameters TooLong"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.driver": "e.example.com"}, {"spec.driver Invalid"}),
        ({"spec.pool.name": "q"}, {"spec.pool.name Invalid"}),
        ({"spec.nodeName": "m"}, {"spec.nodeName Invalid"}),
        ({"spec.nodeName": None, "spec.allNodes": True}, {"spec.nodeName Invalid"}),
        ({"spec.pool.generation": 2, "spec.devices": []}, set()),
        ({"spec.devices": [], "spec.sharedCounters": []}, set()),
    ],
)
def test_what_may_change_in_a_slice(changes, expected):
    assert causes(update(changed(SLICE, changes), SLICE)) == expected


def test_presence_of_both_lists_counts_on_create():
    assert causes(create(changed(SLICE, {"spec.devices": [], "spec.sharedCounters": []}))) == {"spec Invalid"}


def test_unchanged_capacity_and_taints_of_a_device_are_not_judged_again():
    stored = changed(SLICE, {f"{DEVICE_A}.capacity": {"9": {"value": "1"}}, f"{DEVICE_A}.taints.0.key": "no good"})
    assert causes(create(stored)) == {"spec.devices[0].capacity Invalid", "spec.devices[0].taints[0].key Invalid"}
    stored = changed(stored, {f"{DEVICE_A}.taints.0.timeAdded": "2026-01-01T00:00:00Z"})
    touched = changed(stored, {"spec.devices.1.bindsToNode": True})
    assert causes(update(touched, stored)) == set()


def test_an_unknown_stored_effect_survives_only_in_a_rule():
    rule = changed(RULE, {"spec.taint.effect": "Future", "spec.taint.timeAdded": "2026-01-01T00:00:00Z"})
    assert causes(update(changed(rule, {"spec.taint.value": "v"}), rule)) == set()
    stored = changed(
        SLICE, {f"{DEVICE_A}.taints.0": {"key": "k", "effect": "Future", "timeAdded": "2026-01-01T00:00:00Z"}}
    )
    assert causes(update(changed(stored, {"metadata.labels": {"a": "b"}}), stored)) == set()
    assert causes(update(changed(stored, {"spec.devices.1.bindsToNode": True}), stored)) == {
        "spec.devices[0].taints[0].effect NotSupported"
    }


def test_conditions_of_a_rule():
    many = [{**CONDITION, "type": f"T{number}"} for number in range(9)]
    assert causes(update(changed(RULE, {"status.conditions": many}), RULE, "status")) == {"status.conditions TooMany"}
    bad = [{**CONDITION, "reason": "9", "status": "Maybe", "lastTransitionTime": None}, CONDITION]
    assert causes(update(changed(RULE, {"status.conditions": bad}), RULE, "status")) == {
        "status.conditions[0].reason Invalid",
        "status.conditions[0].status NotSupported",
        "status.conditions[0].lastTransitionTime Required",
        "status.conditions[1] Duplicate",
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"spec.driver": ""}, {"spec.driver Required"}),
        ({"spec.driver": "x" * 70 + ".io"}, set()),
        ({"spec.poolName": ""}, {"spec.poolName Invalid"}),
        ({"spec.limit": 0}, {"spec.limit Invalid"}),
        ({"spec.limit": 1001}, {"spec.limit Invalid"}),
        ({"spec.defaultPartitionTypeAttribute": "bare"}, {"spec.defaultPartitionTypeAttribute Invalid"}),
    ],
)
def test_pool_status_requests(changes, expected):
    assert causes(create(changed(POOL_REQUEST, changes))) == expected


def test_a_pool_status_request_is_answered_once():
    pool = {"driver": "d", "poolName": "p", "generation": 1}
    answered = changed(POOL_REQUEST, {"status": {"poolCount": 1, "pools": [pool]}})
    assert causes(update(answered, POOL_REQUEST, "status")) == set()
    zero = changed(answered, {"status.pools.0.generation": 0})
    assert causes(update(zero, POOL_REQUEST, "status")) == {"status.pools[0].generation Required"}
    assert causes(update(changed(answered, {"status.poolCount": 2}), answered, "status")) == {"status Invalid"}
    assert causes(update(changed(POOL_REQUEST, {"spec.driver": "e"}), POOL_REQUEST)) == {"spec Invalid"}


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


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([{"name": "gpu"}], set()),
        ([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}], set()),
        ([{"name": "gpu"}, {"name": "gpu"}], {"[1] Duplicate"}),
        ([{"name": "gpu"}, {"name": "gpu", "request": "a"}], {"[1] Duplicate"}),
        ([{"name": "gpu", "request": "a"}, {"name": "gpu"}], {"[1] Duplicate"}),
        ([{"name": "nic"}], {"[0] NotFound"}),
        ([{"name": "gpu", "request": "a/b"}], {"[0].request Invalid"}),
    ],
)
def test_claims_of_a_container(claims, expected):
    prefix = "spec.containers[0].resources.claims"
    found = causes(create(changed(POD, {"spec.containers.0.resources.claims": claims})))
    assert found == {prefix + cause for cause in expected}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"metadata.annotations": {"kubernetes.io/config.mirror": "x"}}, {" Forbidden"}),
        ({"spec.resources": {"claims": [{"name": "gpu"}]}}, {"spec.resources.claims Forbidden"}),
        (
            {"spec.ephemeralContainers": [{"name": "e", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]},
            {"spec.ephemeralContainers[0].resources Forbidden"},
        ),
        ({"spec.schedulingGroup": {}}, {"spec.schedulingGroup.podGroupName Invalid"}),
        ({"spec.schedulingGroup": {"podGroupName": "g"}}, set()),
    ],
)
def test_pods(changes, expected):
    assert causes(create(changed(POD, changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.containers.0.image": "j"}, set()),
        ({"spec.tolerations": [{"operator": "Exists"}]}, set()),
        ({"spec.resourceClaims": []}, {"spec Forbidden"}),
        ({"spec.containers.0.resources.claims": []}, {"spec Forbidden"}),
        ({"spec.nodeName": "n"}, {"spec Forbidden"}),
    ],
)
def test_what_may_change_in_a_pod(changes, expected):
    assert causes(update(changed(POD, changes), POD)) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}, set()),
        ({"resourceClaimStatuses": [{"name": "nic"}]}, {"status.resourceClaimStatuses[0].name Invalid"}),
        ({"resourceClaimStatuses": [{"name": "gpu"}] * 2}, {"status.resourceClaimStatuses[1].name Duplicate"}),
        (
            {"extendedResourceClaimStatus": {"resourceClaimName": "", "requestMappings": []}},
            {
                "status.extendedResourceClaimStatus.requestMappings Required",
                "status.extendedResourceClaimStatus.resourceClaimName Required",
            },
        ),
        (
            {
                "nodeAllocatableResourceClaimStatuses": [
                    {"resourceClaimName": "x", "mapping": [{"name": "gpu", "quantity": "-1"}]}
                ]
            },
            {
                "status.nodeAllocatableResourceClaimStatuses[0].resourceClaimName Invalid",
                "status.nodeAllocatableResourceClaimStatuses[0].mapping[0].name Invalid",
                "status.nodeAllocatableResourceClaimStatuses[0].mapping[0].quantity Invalid",
            },
        ),
        (
            {"containerStatuses": [{"name": "m", "allocatedResourcesStatus": [{"name": "claim:nic"}]}]},
            {"status.containerStatuses[0].allocatedResourcesStatus[0].name Invalid"},
        ),
        ({"containerStatuses": [{"name": "m", "allocatedResourcesStatus": [{"name": "claim:gpu"}]}]}, set()),
    ],
)
def test_status_of_a_pod(status, expected):
    assert causes(update(changed(POD, {"status": status}), POD, "status")) == expected


def test_a_pods_claim_statuses_are_kept_unless_they_are_cleared():
    entries = [{"name": "gpu", "resourceClaimName": "c"}]
    stored = changed(POD, {"status": {"phase": "Pending", "resourceClaimStatuses": entries}})
    running = update(changed(POD, {"status": {"phase": "Running"}}), stored, "status").object
    assert running["status"] == {"phase": "Running", "resourceClaimStatuses": entries}
    cleared = update(changed(stored, {"status.resourceClaimStatuses": []}), stored, "status").object
    assert "resourceClaimStatuses" not in cleared["status"]
