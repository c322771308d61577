"""The structural schema: what is reported, and in which form a document comes back."""

import pytest

from dray.api import schema
from dray.api.catalogue import every_version
from dray.api.errors import ErrorType

SLICE = "resource_v1.ResourceSlice"
CLAIM = "resource_v1.ResourceClaim"


def problems(document, type_name):
    return {(error.field, error.type) for error in schema.read(document, type_name)[1]}


def test_every_problem_is_reported_with_its_path():
    document = {
        "metadata": {"name": 5},
        "spec": {"x": 1, "pool": [], "devices": [{"name": "a", "capacity": {"m": {"value": True}}}, "b"]},
    }
    assert problems(document, SLICE) == {
        ("metadata.name", ErrorType.WRONG_TYPE),
        ("spec.x", ErrorType.UNKNOWN_FIELD),
        ("spec.pool", ErrorType.WRONG_TYPE),
        ("spec.devices[0].capacity[m].value", ErrorType.WRONG_TYPE),
        ("spec.devices[1]", ErrorType.WRONG_TYPE),
    }


@pytest.mark.parametrize("value", [1.5, "7", True, 2**63, -(2**63) - 1])
def test_whole_numbers_have_64_bits(value):
    assert problems({"spec": {"pool": {"generation": value}}}, SLICE) == {
        ("spec.pool.generation", ErrorType.WRONG_TYPE)
    }


def test_narrow_numbers_have_32_bits():
    document = {"spec": {"driver": "d", "limit": 2**31}}
    assert problems(document, "resource_v1alpha3.ResourcePoolStatusRequest") == {("spec.limit", ErrorType.WRONG_TYPE)}


@pytest.mark.parametrize("value", ["2026-01-01", "now", "2026-13-01T00:00:00Z", 5])
def test_times_are_rfc_3339(value):
    assert problems({"metadata": {"creationTimestamp": value}}, CLAIM) == {
        ("metadata.creationTimestamp", ErrorType.WRONG_TYPE)
    }


def test_times_become_utc_with_seconds():
    read, found = schema.read({"metadata": {"creationTimestamp": "2026-01-01T02:00:00.123+02:00"}}, CLAIM)
    assert not found
    assert read["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_secrets_hold_base64():
    assert problems({"data": {"a": "not base64!"}}, "core_v1.Secret") == {("data[a]", ErrorType.WRONG_TYPE)}
    assert problems({"data": {"a": "aGVsbG8="}}, "core_v1.Secret") == set()


def test_null_is_absent_and_members_that_are_always_written_appear():
    written = schema.write({"metadata": None, "spec": {"devices": None}, "status": None}, CLAIM)
    assert written == {"metadata": {}, "spec": {"devices": {"requests": None}}, "status": {}}


def test_zero_is_kept_behind_a_pointer_and_dropped_elsewhere():
    exactly = {"deviceClassName": "", "adminAccess": False, "count": 0, "allocationMode": ""}
    written = schema.write({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}, CLAIM)
    assert written["spec"]["devices"]["requests"][0]["exactly"] == {"deviceClassName": "", "adminAccess": False}


def test_reading_keeps_empty_lists_and_writing_drops_them():
    document = {"spec": {"devices": [], "sharedCounters": []}}
    assert schema.read(document, SLICE)[0]["spec"]["devices"] == []
    assert "devices" not in schema.write(document, SLICE)["spec"]


def test_writing_what_was_written_changes_nothing():
    document = {"metadata": {"labels": {}}, "spec": {"devices": [{"name": "d", "capacity": {"m": {"value": "1.5Gi"}}}]}}
    once = schema.write(document, SLICE)
    assert once["spec"]["devices"][0]["capacity"]["m"]["value"] == "1536Mi"
    assert schema.write(once, SLICE) == once


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r"}]}}},
        {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r"}]}}, "status": {}},
        {"metadata": {"labels": {}, "finalizers": []}, "spec": {"devices": {"requests": [], "constraints": []}}},
        {"metadata": {"labels": {}}, "status": {"reservedFor": [{"name": "p"}], "devices": []}},
    ],
)
def test_what_was_read_is_written_member_by_member(document):
    read, _ = schema.read(document, CLAIM)
    assert schema.written(read, CLAIM) == schema.write(read, CLAIM)
    assert list(schema.written(read, CLAIM)) == list(schema.write(read, CLAIM))


def test_types_may_contain_themselves():
    properties = {"a": {"type": "object", "properties": {"b": {"type": "string", "nope": 1}}}}
    document = {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": properties}}}]}}
    assert problems(document, "apiextensions_v1.CustomResourceDefinition") == {
        ("spec.versions[0].schema.openAPIV3Schema.properties[a].properties[b].nope", ErrorType.UNKNOWN_FIELD)
    }


@pytest.mark.parametrize("version", list(every_version()), ids=lambda v: f"{v.api_version}.{v.kind}")
def test_every_kind_has_a_schema(version):
    read, found = schema.read({"apiVersion": version.api_version, "kind": version.kind, "metadata": {}}, version.schema)
    assert not found
    assert read["kind"] == version.kind


@pytest.mark.parametrize("depth", [300, 900, 5000])
def test_what_is_nested_too_deeply_is_refused(depth):
    inner = 1
    for _ in range(depth):
        inner = {"properties": {"a": inner}}
    raw = {"spec": {"config": [{"opaque": {"driver": "d", "parameters": inner}}]}}
    assert problems(raw, "resource_v1.DeviceClass") == {
        ("spec.config[0].opaque.parameters", ErrorType.WRONG_TYPE),
    }
    recursive = {"spec": {"versions": [{"schema": {"openAPIV3Schema": inner}}]}}
    assert problems(recursive, "apiextensions_v1.CustomResourceDefinition")
