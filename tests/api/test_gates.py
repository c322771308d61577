"""Feature gates, and what happens to fields of features that are off."""

import pytest

from dray.api.gates import ALL_GATES, DEFAULT_GATES, FeatureGates, GateError

from .objects import CLAIM, CLASS, POD, POD_GROUP, SLICE, causes, changed, create, update

EXACT = "spec.devices.requests.0.exactly"


def test_defaults_are_those_of_kubernetes_1_37():
    assert DEFAULT_GATES["DRAConsumableCapacity"]
    assert not DEFAULT_GATES["GenericWorkload"]
    assert not DEFAULT_GATES["DRADerivedAttributes"]
    assert DEFAULT_GATES.enabled < ALL_GATES.enabled


def test_switches_are_read_as_the_components_read_them():
    gates = FeatureGates.parse("DRADeviceTaints=false, GenericWorkload=True")
    assert not gates["DRADeviceTaints"]
    assert gates["GenericWorkload"]
    assert FeatureGates.parse("") == DEFAULT_GATES


@pytest.mark.parametrize("text", ["DRADeviceTaints", "DRADeviceTaints=yes", "Nope=true", "DRAAdminAccess=false"])
def test_wrong_switches_are_refused(text):
    with pytest.raises(GateError):
        FeatureGates.parse(text)


def off(*names: str) -> FeatureGates:
    return ALL_GATES.switched(**dict.fromkeys(names, False))


DERIVED = {
    f"{EXACT}.derivedAttributes": [{"name": "x.io/a", "expression": "1"}],
    "spec.devices.constraints": [{"matchAttribute": "x.io/a"}],
}


def test_fields_of_a_feature_that_is_off_are_dropped():
    document = changed(CLAIM, {f"{EXACT}.tolerations": [{"operator": "Exists"}], **DERIVED})
    gates = off("DRADeviceTaints", "DRADerivedAttributes")
    exactly = create(document, gates=gates).object["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    kept = create(document).object["spec"]["devices"]["requests"][0]["exactly"]
    assert {"tolerations", "derivedAttributes"} <= set(kept)


def test_dropping_can_make_an_object_invalid():
    document = changed(CLAIM, {"spec.devices.constraints": [{"distinctAttribute": "x.io/a"}]})
    assert causes(create(document, gates=off("DRAConsumableCapacity"))) == {
        "spec.devices.constraints[0].matchAttribute Required"
    }
    listed = changed(SLICE, {"spec.devices.1.attributes": {"peers": {"ints": [1]}}})
    assert causes(create(listed, gates=off("DRAListTypeAttributes"))) == {"spec.devices[1].attributes[peers] Invalid"}


def test_fields_in_use_are_kept():
    stored = changed(SLICE, {"spec.devices.0.taints.0.timeAdded": "2026-01-01T00:00:00Z"})
    gates = off("DRADeviceTaints")
    kept = update(changed(stored, {"spec.pool.generation": 2}), stored, gates=gates)
    assert kept.object["spec"]["devices"][0]["taints"]
    unused = changed(SLICE, {"spec.devices.0.taints": None})
    assert "taints" not in update(stored, unused, gates=gates).object["spec"]["devices"][0]


def test_templates_classes_groups_and_pods_lose_their_fields_too():
    gates = off("DRAWorkloadResourceClaims", "GenericWorkload", "PodGroupPreemptionPolicy")
    assert "resourceClaims" not in create(POD_GROUP, gates=gates).object["spec"]
    pod = changed(POD, {"spec.schedulingGroup": {"podGroupName": "g"}})
    assert "schedulingGroup" not in create(pod, gates=gates).object["spec"]
    template = {
        **CLAIM,
        "kind": "ResourceClaimTemplate",
        "spec": {"spec": changed(CLAIM, {f"{EXACT}.capacity": {"requests": {"m": "1"}}})["spec"]},
    }
    dropped = create(template, gates=off("DRAConsumableCapacity")).object
    assert "capacity" not in dropped["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert create(CLASS, gates=gates).object["spec"]["selectors"]


def test_a_client_of_an_older_server_may_switch_off_what_is_locked():
    with pytest.raises(GateError, match="is locked on in Kubernetes"):
        FeatureGates.parse("DRAExtendedResource=false")
    gates = FeatureGates.parse("DRAExtendedResource=false", locked=False)
    assert not gates["DRAExtendedResource"]
    with pytest.raises(GateError, match="unknown"):
        FeatureGates.parse("DRAUnheardOf=false", locked=False)
