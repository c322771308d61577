from __future__ import annotations

from typing import Any

import pytest

from dray.api.alpha2 import to_v1, without_source
from dray.api.alpha2.parameters import translate
from dray.api.conversion import ConversionError


def v1alpha2(kind: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1alpha2", "kind": kind, "metadata": {"name": "a"}, **content}


def fields(notes: list[Any]) -> list[str]:
    return [note.field for note in notes]


def test_class() -> None:
    [converted], notes = to_v1(v1alpha2("ResourceClass", driverName="d.example.com", structuredParameters=True))
    assert converted == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "a"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "d.example.com"'}}]},
    }
    assert notes == []


def test_class_says_what_it_drops() -> None:
    reference = {"kind": "P", "name": "p"}
    _, notes = to_v1(
        v1alpha2(
            "ResourceClass",
            suitableNodes={"nodeSelectorTerms": []},
            parametersRef=reference,
            defaultClaimParametersRef=reference,
            structuredParameters=False,
            odd=1,
        )
    )
    assert sorted(fields(notes)) == [
        "defaultClaimParametersRef",
        "driverName",
        "odd",
        "parametersRef",
        "structuredParameters",
        "suitableNodes",
    ]


def test_class_parameters_become_config_and_selectors() -> None:
    parameters = v1alpha2(
        "ResourceClassParameters",
        generatedFrom={"kind": "P", "name": "p"},
        vendorParameters=[{"driverName": "d", "parameters": {"x": 1}}],
        filters=[
            {"driverName": "d", "namedResources": {"selector": 'attributes.string["model"] == "m"'}},
            {"driverName": "d", "namedResources": {"selector": 'attributes.stringslice["s"].isSorted()'}},
        ],
    )
    document = v1alpha2("ResourceClass", driverName="d", parametersRef={"kind": "P", "name": "p"})
    [converted], notes = to_v1(document, beside=[parameters])
    assert converted["spec"]["config"] == [{"opaque": {"driver": "d", "parameters": {"x": 1}}}]
    assert [each["cel"]["expression"] for each in converted["spec"]["selectors"]] == [
        'device.driver == "d"',
        'device.attributes["d"].model == "m"',
    ]
    assert ["isSorted" in note.message for note in notes] == [False, True]


def test_vendor_class_parameters_become_opaque() -> None:
    vendor = {"apiVersion": "v.example.com/v1", "kind": "P", "metadata": {"name": "p"}, "spec": {"x": 1}}
    document = v1alpha2("ResourceClass", driverName="d", parametersRef={"kind": "P", "name": "p"})
    [converted], notes = to_v1(document, beside=[vendor])
    opaque = {"driver": "d", "parameters": {"apiVersion": "v.example.com/v1", "kind": "P", "spec": {"x": 1}}}
    assert converted["spec"]["config"] == [{"opaque": opaque}]
    assert fields(notes) == ["parametersRef"]


def test_plain_claim() -> None:
    document = v1alpha2("ResourceClaim", spec={"resourceClassName": "c", "allocationMode": "WaitForFirstConsumer"})
    [converted], notes = to_v1(document)
    assert converted["spec"] == {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": "c"}}]}}
    assert notes == []


def test_claim_says_what_it_drops() -> None:
    spec = {
        "resourceClassName": "c",
        "allocationMode": "Immediate",
        "parametersRef": {"kind": "P", "name": "p"},
        "constraints": [{"nodeSelector": {"a": "b"}}, {"zone": "x"}],
        "odd": 1,
    }
    _, notes = to_v1(v1alpha2("ResourceClaim", spec=spec, status={"driverName": "d"}, odd=2))
    assert fields(notes) == [
        "status",
        "odd",
        "spec.parametersRef",
        "spec.allocationMode",
        "spec.constraints[0].nodeSelector",
        "spec.constraints[1].zone",
        "spec.odd",
    ]


def test_inline_parameters() -> None:
    parameters = {"kind": "P", "count": 3, "sharing": {"strategy": "MPS"}, "selector": {"model": "m"}, "empty": {}}
    document = v1alpha2("ResourceClaim", spec={"resourceClassName": "c", "parameters": parameters})
    [converted], notes = to_v1(
        document, beside=[{**v1alpha2("ResourceClass", driverName="d"), "metadata": {"name": "c"}}]
    )
    assert converted["spec"]["devices"] == {
        "requests": [{"name": "device", "exactly": {"deviceClassName": "c", "count": 3}}],
        "config": [{"opaque": {"driver": "d", "parameters": {"kind": "P", "sharing": {"strategy": "MPS"}}}}],
    }
    assert fields(notes) == ["spec.parameters.selector", "spec.parameters"]


def test_the_driver_is_guessed_from_the_class_and_that_is_said() -> None:
    document = v1alpha2("ResourceClaim", spec={"resourceClassName": "c", "parameters": {"x": 1}})
    [converted], notes = to_v1(document)
    assert converted["spec"]["devices"]["config"][0]["opaque"]["driver"] == "c"
    assert "spec.resourceClassName" in fields(notes)


def test_structured_parameters_become_requests() -> None:
    parameters = v1alpha2(
        "ResourceClaimParameters",
        shareable=True,
        generatedFrom={"kind": "P", "name": "p"},
        driverRequests=[
            {
                "driverName": "d",
                "vendorParameters": {"all": 1},
                "requests": [
                    {"namedResources": {"selector": 'attributes.quantity["memory"].isGreaterThan(quantity("1Gi"))'}},
                    {"namedResources": {"selector": "true"}, "vendorParameters": {"one": 1}},
                ],
            }
        ],
    )
    spec = {"spec": {"resourceClassName": "c", "parametersRef": {"kind": "P", "name": "p"}}, "metadata": {"labels": {}}}
    [converted], notes = to_v1(v1alpha2("ResourceClaimTemplate", spec=spec), beside=[parameters])
    memory = 'device.capacity["d"].memory.isGreaterThan(quantity("1Gi"))'
    assert converted["spec"]["spec"]["devices"] == {
        "requests": [
            {"name": "device-0", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": memory}}]}},
            {"name": "device-1", "exactly": {"deviceClassName": "c"}},
        ],
        "config": [
            {"opaque": {"driver": "d", "parameters": {"all": 1}}},
            {"requests": ["device-1"], "opaque": {"driver": "d", "parameters": {"one": 1}}},
        ],
    }
    assert fields(notes) == ["spec.spec.parametersRef"] * 2


def test_default_parameters_of_the_class() -> None:
    vendor = {"kind": "P", "metadata": {"name": "p"}, "spec": {"count": 2}}
    device_class = v1alpha2("ResourceClass", driverName="d", defaultClaimParametersRef={"kind": "P", "name": "p"})
    document = v1alpha2("ResourceClaim", spec={"resourceClassName": "a"})
    [converted], _ = to_v1(document, beside=[device_class, vendor])
    assert converted["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2


def test_devices_under_the_wrong_version_are_kept() -> None:
    requests = [{"name": "a", "deviceClassName": "c"}, {"name": "b", "exactly": {"deviceClassName": "c"}}]
    [converted], notes = to_v1(v1alpha2("ResourceClaim", spec={"devices": {"requests": requests}}))
    assert converted["spec"]["devices"]["requests"] == [
        {"name": "a", "exactly": {"deviceClassName": "c"}},
        {"name": "b", "exactly": {"deviceClassName": "c"}},
    ]
    assert fields(notes) == ["spec.devices"]


@pytest.mark.parametrize(
    "kind",
    ["PodSchedulingContext", "PodScheduling", "ResourceClaimParameters", "ResourceClassParameters", "ResourceSlice"],
)
def test_kinds_without_a_successor_are_dropped_with_a_note(kind: str) -> None:
    objects, notes = to_v1(v1alpha2(kind))
    assert objects == []
    assert len(notes) == 1


def test_what_cannot_be_converted() -> None:
    with pytest.raises(ConversionError, match="no kind 'DeviceClass'"):
        to_v1(v1alpha2("DeviceClass"))
    with pytest.raises(ConversionError, match=r"spec\.resourceClassName: missing"):
        to_v1(v1alpha2("ResourceClaim"))


@pytest.mark.parametrize(
    ("expression", "translated"),
    [
        ('attributes.int["a"] > 1', 'device.attributes["d"].a > 1'),
        ("attributes.bool.a", 'device.attributes["d"].a'),
        ("'a' in attributes.version", "'a' in device.attributes[\"d\"]"),
        ('attributes.quantity["a-b"] == 1', None),
        ("attributes.intslice.a[0] == 1", None),
        ("true", "true"),
    ],
)
def test_selectors(expression: str, translated: str | None) -> None:
    assert translate(expression, "d") == translated


def test_without_source_leaves_modern_pods_alone() -> None:
    spec = {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}]}
    assert without_source(spec) == (spec, [])
    assert without_source(spec)[0] is spec
