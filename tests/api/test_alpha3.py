from __future__ import annotations

from typing import Any

import pytest

from dray.api.alpha3 import to_v1


def v1alpha3(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1alpha3", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


REQUESTS = {"requests": [{"name": "r", "deviceClassName": "c"}]}
CONVERTED = {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}


@pytest.mark.parametrize(
    ("kind", "spec", "converted", "noted"),
    [
        ("ResourceClaim", {"devices": REQUESTS, "controller": "d"}, {"devices": CONVERTED}, ["spec.controller"]),
        (
            "ResourceClaimTemplate",
            {"spec": {"devices": REQUESTS, "controller": "d"}},
            {"spec": {"devices": CONVERTED}},
            ["spec.spec.controller"],
        ),
        ("DeviceClass", {"suitableNodes": {"a": 1}, "config": []}, {"config": []}, ["spec.suitableNodes"]),
        (
            "ResourceSlice",
            {"devices": [{"name": "g", "basic": {"capacity": {"memory": "1Gi"}}}]},
            {"devices": [{"name": "g", "capacity": {"memory": {"value": "1Gi"}}}]},
            [],
        ),
    ],
)
def test_to_v1(kind: str, spec: dict[str, Any], converted: dict[str, Any], noted: list[str]) -> None:
    document, notes = to_v1(v1alpha3(kind, spec))
    assert document["apiVersion"] == "resource.k8s.io/v1"
    assert document["spec"] == converted
    assert [note.field for note in notes] == noted


def test_status_is_dropped_with_a_note() -> None:
    document, notes = to_v1({**v1alpha3("ResourceClaim", {}), "status": {"allocation": {}}})
    assert "status" not in document
    assert [note.field for note in notes] == ["status"]
