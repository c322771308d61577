"""Claims and templates: updates, and the status that the scheduler and drivers write."""

import pytest

from tests.api.objects import CLAIM, TEMPLATE, causes, changed, create, update

RESULT = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "a"}
ALLOCATED = changed(CLAIM, {"status": {"allocation": {"devices": {"results": [RESULT]}}}})
RESERVED = changed(ALLOCATED, {"status.reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]})
REQUEST = "spec.devices.requests.0.exactly"


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


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, {" Required"}),
        ({"deviceClassName": ""}, {" Required"}),
        ({"count": 2}, {".exactly.deviceClassName Required", ".exactly.allocationMode NotSupported"}),
        ({"adminAccess": False}, {".exactly.deviceClassName Required", ".exactly.allocationMode NotSupported"}),
        ({"allocationMode": "All"}, {".exactly.deviceClassName Required"}),
        ({"allocationMode": "Some"}, {".exactly.deviceClassName Required", ".allocationMode NotSupported"}),
    ],
)
def test_a_request_of_v1beta1_without_a_class(members, expected):
    spec = {"devices": {"requests": [{"name": "gpu", **members}]}}
    claim = {**changed(CLAIM, {"spec": spec}), "apiVersion": "resource.k8s.io/v1beta1"}
    path = "spec.devices.requests[0]"
    assert {cause.removeprefix(path) for cause in causes(create(claim))} == expected
