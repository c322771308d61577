"""What changes where a feature is off."""

from __future__ import annotations

from typing import Any

from dray.allocation import Allocation, Inventory, Rejection, RejectionKind, allocate
from dray.api.gates import ALL_GATES
from dray.api.objects import Object
from tests.allocation.claims import claim, classes, exactly, holding, node, request
from tests.allocation.devices import DRIVER, consumes, device, resource_slice


def ask(devices: list[Object], wanted: Object, allocated: list[Object] | None = None, **gates: bool) -> Any:
    inventory = Inventory(
        slices=[resource_slice(devices)], classes=classes(), claims=allocated or (), gates=ALL_GATES.switched(**gates)
    )
    return allocate(inventory, node(), [wanted])


def names(answer: Any) -> list[str]:
    assert isinstance(answer, Allocation), answer
    return [each["device"] for each in answer.results[0]["devices"]["results"]]


ONE, TWO = claim("c", request("r", exactly())), claim("c", request("r", exactly(2)))


def test_lists_do_not_match_where_attributes_are_scalars() -> None:
    devices = [device("a", rail=["x"]), device("b", rail=["x"]), device("c", rail="x"), device("d", rail="x")]
    wanted = claim("c", request("r", exactly(2)), constraints=[{"matchAttribute": f"{DRIVER}/rail"}])
    assert names(ask(devices, wanted)) == ["a", "b"]
    assert names(ask(devices, wanted, DRAListTypeAttributes=False)) == ["c", "d"]
    distinct = claim("c", request("r", exactly(2)), constraints=[{"distinctAttribute": f"{DRIVER}/rail"}])
    assert names(ask(devices, distinct, DRAListTypeAttributes=False)) == ["a", "c"]
    assert ask(devices, distinct).kind is RejectionKind.NO_SOLUTION


def test_taints_are_ignored() -> None:
    tainted = [{**device("a"), "taints": [{"key": "k", "effect": "NoSchedule"}]}]
    assert isinstance(ask(tainted, ONE), Rejection)
    assert names(ask(tainted, ONE, DRADeviceTaints=False)) == ["a"]


def test_devices_with_binding_conditions_are_not_selectable() -> None:
    waiting = [{**device("a"), "bindingConditions": ["ready"]}]
    assert names(ask(waiting, ONE)) == ["a"]
    answer = ask(waiting, ONE, DRADeviceBindingConditions=False)
    assert answer.kind is RejectionKind.NO_SOLUTION


def test_shares_count_as_the_whole_device() -> None:
    shared = [{**device("a"), "allowMultipleAllocations": True}]
    held = [holding("h", "a", shareID="s")]
    assert names(ask(shared, ONE, held)) == ["a"]
    assert isinstance(ask(shared, ONE, held, DRAConsumableCapacity=False), Rejection)
    sized = claim("c", request("r", exactly(capacity={"requests": {"memory": "1"}})))
    assert ask(shared, sized, DRAConsumableCapacity=False).kind is RejectionKind.FAULT


def test_partitions_are_passed_over() -> None:
    devices = [{**device("p"), "consumesCounters": [consumes("card", memory="1")]}, device("whole")]
    assert names(ask(devices, ONE, DRAPartitionableDevices=False)) == ["whole"]


def test_derived_attributes_are_refused() -> None:
    derived = [{"name": "x.example.com/a", "expression": "1"}]
    wanted = claim(
        "c", request("r", exactly(2, derivedAttributes=derived)), constraints=[{"matchAttribute": "x.example.com/a"}]
    )
    devices = [device("a"), device("b")]
    assert names(ask(devices, wanted)) == ["a", "b"]
    assert ask(devices, wanted, DRADerivedAttributes=False).kind is RejectionKind.FAULT
