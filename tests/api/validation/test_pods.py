"""Pods: their claims, what may change, and their status."""

import pytest

from tests.api.objects import POD, causes, changed, create, update


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
        ({"spec.resourceClaims": []}, {"spec Forbidden", "spec.containers[0].resources.claims[0] NotFound"}),
        ({"spec.tolerations": [{"operator": "Equal"}]}, {"spec.tolerations[0].operator Invalid"}),
        ({"spec.activeDeadlineSeconds": 0}, {"spec.activeDeadlineSeconds Invalid"}),
        ({"spec.containers.0.resources.claims": []}, {"spec Forbidden"}),
        ({"spec.nodeName": "n"}, {"spec Forbidden"}),
    ],
)
def test_what_may_change_in_a_pod(changes, expected):
    assert causes(update(changed(POD, changes), POD)) == expected


def test_a_deadline_only_comes_nearer():
    old = changed(POD, {"spec.activeDeadlineSeconds": 60})
    for deadline, expected in ((30, set()), (61, {"Invalid"}), (None, {"Invalid"})):
        found = causes(update(changed(old, {"spec.activeDeadlineSeconds": deadline}), old))
        assert found == {f"spec.activeDeadlineSeconds {cause}" for cause in expected}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
DISK = {"key": "disk", "operator": "Exists"}


def near(*terms, **others):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}, **others}}


TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [DISK]}}]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.nodeSelector": {"gpu": "yes", "zone": "a"}}, set()),
        ({"spec.nodeSelector": {"gpu": "no"}}, {"spec.nodeSelector Invalid"}),
        ({"spec.nodeSelector": {}}, {"spec.nodeSelector Invalid"}),
        ({"spec.affinity": near([ZONE, DISK])}, set()),
        ({"spec.affinity": near([DISK, ZONE], **{SOFT: PREFERRED})}, set()),
        ({"spec.affinity": near([DISK])}, {f"{TERMS}[0] Invalid"}),
        ({"spec.affinity": near([ZONE], [DISK])}, {f"{TERMS} Invalid"}),
        ({"spec.affinity": {}}, {f"{TERMS} Invalid"}),
        ({"spec.affinity": {**near([ZONE]), "podAffinity": {}}}, {"spec Forbidden"}),
        ({"spec.schedulingGates": [], "spec.nodeSelector": {"gpu": "yes", "zone": "a"}}, set()),
        ({"spec.schedulingGates": [{"name": "a.b/c"}, {"name": "a.b/d"}]}, {"spec Forbidden"}),
    ],
)
def test_a_pod_behind_a_gate_may_be_told_more_closely_where_to_run(changes, expected):
    directions = {"spec.nodeSelector": {"gpu": "yes"}, "spec.affinity": near([ZONE])}
    free = changed(POD, directions)
    gated = changed(free, {"spec.schedulingGates": [{"name": "a.b/c"}]})
    assert causes(update(changed(gated, changes), gated)) == expected
    if not expected:
        assert causes(update(changed(free, changes), free)) == {"spec Forbidden"}


def test_a_pod_behind_a_gate_that_had_no_directions_may_get_any():
    gated = changed(POD, {"spec.schedulingGates": [{"name": "a.b/c"}]})
    assert causes(update(changed(gated, {"spec.affinity": near([ZONE], [DISK])}), gated)) == set()
    assert causes(update(changed(gated, {"spec.nodeSelector": {"zone": "a"}}), gated)) == set()


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


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.affinity": near([ZONE])}, set()),
        ({"spec.affinity": near()}, {f"{TERMS} Required"}),
        ({"spec.affinity": near([{**ZONE, "operator": "Is"}])}, {f"{TERMS}[0].matchExpressions[0].operator Invalid"}),
        ({"spec.nodeSelector": {"a b": "c"}}, {"spec.nodeSelector Invalid"}),
        (
            {
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": [
                    {**PREFERRED[0], "weight": 0}
                ]
            },
            {"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight Invalid"},
        ),
    ],
)
def test_where_a_pod_wants_to_run(changes, expected):
    assert causes(create(changed(changed(POD, {"spec.affinity": {"nodeAffinity": {}}}), changes))) == expected


def test_a_node_is_named_by_one_value():
    field = {"key": "metadata.name", "operator": "In", "values": ["a", "b"]}
    required = {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    found = causes(create(changed(POD, {"spec.affinity": {"nodeAffinity": required}})))
    assert found == {f"{TERMS}[0].matchFields[0].values Required"}


@pytest.mark.parametrize(
    ("resources", "of_container", "expected"),
    [
        ({"limits": {"cpu": "2"}}, {}, {"cpu": "2"}),
        ({"limits": {"cpu": "2"}}, {"cpu": "500m", "memory": "1Gi"}, {"cpu": "500m", "memory": "1Gi"}),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, {}, {"cpu": "1", "memory": "1Gi"}),
        ({"requests": {"cpu": "1"}}, {"memory": "1Gi"}, {"cpu": "1"}),
    ],
)
def test_a_pod_with_limits_as_a_whole_asks_for_something(resources, of_container, expected):
    pod = changed(POD, {"spec.resources": resources, "spec.containers.0.resources": {"requests": of_container}})
    assert create(pod).object["spec"]["resources"]["requests"] == expected


@pytest.mark.parametrize(
    ("policy", "config", "expected"),
    [
        ("ClusterFirst", None, set()),
        ("None", None, {" Required"}),
        ("None", {"searches": ["a"]}, {".nameservers Required"}),
        ("None", {"nameservers": ["10.0.0.1", "::1"], "searches": ["a.b.", ".", "_tcp.a"]}, set()),
        (
            "Default",
            {"nameservers": ["a", "1.1.1.1", "1.1.1.2", "1.1.1.3"]},
            {".nameservers Invalid", ".nameservers[0] Invalid"},
        ),
        ("Default", {"searches": [f"a{n}" for n in range(33)]}, {".searches Invalid"}),
        (
            "Default",
            {"searches": ["a b"], "options": [{"value": "1"}]},
            {".searches[0] Invalid", ".options[0] Required"},
        ),
    ],
)
def test_name_resolution(policy, config, expected):
    found = causes(create(changed(POD, {"spec.dnsPolicy": policy, "spec.dnsConfig": config})))
    assert {cause.removeprefix("spec.dnsConfig") for cause in found} == expected
