from __future__ import annotations

from typing import Any

from dray.allocation import Allocation, Inventory, allocate, derived_share_id
from dray.api.names import is_uuid
from dray.api.objects import Object
from dray.testing.objects import device_class
from tests.allocation.claims import claim, exactly, node, request
from tests.allocation.devices import device, resource_slice


def config(mode: str, *requests: str) -> Object:
    entry: Object = {"opaque": {"driver": "d", "parameters": {"mode": mode}}}
    return {**entry, "requests": list(requests)} if requests else entry


def modes(*claims: Object) -> list[tuple[str, str, list[str] | None]]:
    classes = [device_class("gpu", config=[config("class")]), device_class("plain")]
    slices = [resource_slice([device(f"d{number}") for number in range(4)])]
    answer = allocate(Inventory(slices=slices, classes=classes), node(), claims)
    assert isinstance(answer, Allocation)
    entries = answer.results[0]["devices"].get("config", [])
    return [(each["opaque"]["parameters"]["mode"], each["source"], each.get("requests")) for each in entries]


def test_class_configuration_comes_first_and_once() -> None:
    wanted = claim("c", request("a", exactly()), request("b", exactly()), request("x", exactly(of="plain")))
    wanted["spec"]["devices"]["config"] = [config("all"), config("b", "b"), config("unknown", "zzz")]
    assert modes(wanted) == [
        ("class", "FromClass", ["a", "b"]),
        ("all", "FromClaim", None),
        ("b", "FromClaim", ["b"]),
    ]


def test_what_covers_every_request_names_none() -> None:
    assert modes(claim("c", request("a", exactly()))) == [("class", "FromClass", None)]


def test_alternatives_that_were_not_chosen_bring_no_configuration() -> None:
    wanted = claim("c", request("a", exactly(9), exactly(1)), request("b", exactly(of="plain")))
    wanted["spec"]["devices"]["config"] = [config("first", "a/a"), config("second", "a/b"), config("either", "a")]
    assert modes(wanted) == [
        ("class", "FromClass", ["a/b"]),
        ("second", "FromClaim", ["a/b"]),
        ("either", "FromClaim", ["a"]),
    ]


def selector_of(*devices: Object, **where: Any) -> Object | None:
    slices = [resource_slice(list(devices), **where)]
    wanted = claim("c", request("r", exactly(len(devices), of="any")))
    answer = allocate(Inventory(slices=slices, classes=[device_class("any")]), node(zone="z"), [wanted])
    assert isinstance(answer, Allocation)
    selector: Object | None = answer.results[0].get("nodeSelector")
    return selector


PINNED = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}


def test_local_devices_pin_the_node() -> None:
    assert selector_of(device("d")) == PINNED
    assert selector_of({**device("d"), "bindsToNode": True}, allNodes=True) == PINNED


def test_devices_of_the_network_bring_their_selector() -> None:
    assert selector_of(device("d"), allNodes=True) is None
    assert selector_of(device("d"), device("e"), nodeSelector=ZONE) == ZONE
    each = [{**device("d"), "nodeSelector": ZONE}, {**device("e"), "allNodes": True}]
    assert selector_of(*each, perDeviceNodeSelection=True) == ZONE


def test_results_carry_what_the_device_says() -> None:
    made = {**device("d"), "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    slices = [resource_slice([made], skipNodeOperations=["*"])]
    where = {**node(), "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    tolerations = [{"operator": "Exists"}]
    wanted = claim("c", request("r", exactly(of="any", tolerations=tolerations, adminAccess=True)))
    answer = allocate(Inventory(slices=slices, classes=[device_class("any")]), where, [wanted])
    assert isinstance(answer, Allocation)
    (result,) = answer.results[0]["devices"]["results"]
    del result["driver"], result["pool"]
    assert result == {
        "request": "r",
        "device": "d",
        "adminAccess": True,
        "tolerations": tolerations,
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
        "skipNodeOperations": ["*"],
    }


def test_share_ids_are_uuids_that_follow_from_claim_and_device() -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
    one = derived_share_id(claim("a"), result)
    assert is_uuid(one)
    assert one == derived_share_id(claim("a"), result)
    assert one != derived_share_id(claim("b"), result)
