from __future__ import annotations

from typing import Any

from dray.allocation import Allocation, Inventory, allocate, commit
from tests.allocation.claims import claim, classes, exactly, holding, node, request
from tests.allocation.devices import DRIVER, consumes, counter_slice, device, resource_slice

WANTED = [claim("c", request("r", exactly()))]


def first(inventory: Inventory, where: str = "n") -> str | None:
    answer = allocate(inventory, node(where), WANTED, explain=False)
    return answer.results[0]["devices"]["results"][0]["device"] if isinstance(answer, Allocation) else None


def test_slices_come_change_and_go() -> None:
    inventory = Inventory(classes=classes())
    assert first(inventory) is None
    inventory.put_slice(resource_slice([device("a")]))
    assert first(inventory) == "a"
    inventory.put_slice(resource_slice([device("b")]))
    assert first(inventory) == "b"
    inventory.remove_slice("slice")
    inventory.remove_slice("never-was")
    assert first(inventory) is None


def test_a_slice_with_a_device_twice_comes_and_goes() -> None:
    inventory = Inventory(classes=classes())
    inventory.put_slice(resource_slice([device("a"), device("a")]))
    assert first(inventory) is None
    inventory.put_slice(resource_slice([device("a")]))
    assert first(inventory) == "a"


def test_classes_come_and_go() -> None:
    inventory = Inventory(slices=[resource_slice([device("a")])])
    assert first(inventory) is None
    inventory.put_class(classes()[0])
    assert first(inventory) == "a"
    inventory.remove_class("gpu")
    assert first(inventory) is None


def test_claims_hold_and_release_devices() -> None:
    inventory = Inventory(slices=[resource_slice([device("a"), device("b")])], classes=classes())
    held = holding("h", "a")
    inventory.put_claim(held)
    assert first(inventory) == "b"
    inventory.put_claim(holding("h", "b"))
    assert first(inventory) == "a"
    inventory.put_claim({**held, "status": {}})
    assert first(inventory) == "a"
    inventory.put_claim(held)
    inventory.remove_claim(held)
    assert first(inventory) == "a"


def test_a_device_stays_in_use_while_its_slice_is_away() -> None:
    inventory = Inventory(slices=[resource_slice([device("a"), device("b")])], classes=classes())
    inventory.put_claim(holding("h", "a"))
    inventory.remove_slice("slice")
    inventory.put_slice(resource_slice([device("a"), device("b")]))
    assert first(inventory) == "b"


def test_admin_access_holds_nothing() -> None:
    inventory = Inventory(slices=[resource_slice([device("a")])], classes=classes())
    inventory.put_claim(holding("h", "a", adminAccess=True))
    assert first(inventory) == "a"


def test_a_share_is_charged_to_counters_once_and_given_back_with_the_last() -> None:
    shared: dict[str, Any] = {**device("s"), "allowMultipleAllocations": True}
    shared["consumesCounters"] = [consumes("card", memory="2")]
    part = {**device("p"), "consumesCounters": [consumes("card", memory="2")]}
    slices = [resource_slice([part, shared], count=2), counter_slice({"card": {"memory": "3"}}, count=2)]
    inventory = Inventory(slices=slices, classes=classes())
    (counter_sets, _) = inventory.view(node()).counter_sets.values()
    claims = [holding(f"h{number}", "s", shareID=f"share-{number}") for number in range(2)]
    for each in claims:
        inventory.put_claim(each)
    assert [left // 10**9 for left in counter_sets.left] == [1]
    assert first(inventory) == "s"
    inventory.remove_claim(claims[0])
    assert [left // 10**9 for left in counter_sets.left] == [1]
    inventory.remove_claim(claims[1])
    assert [left // 10**9 for left in counter_sets.left] == [3]
    assert first(inventory) == "p"


def test_counters_count_devices_of_other_nodes() -> None:
    parts = [{**device(name), "consumesCounters": [consumes("card", memory="1")]} for name in ("a", "b")]
    slices = [
        resource_slice([parts[0]], name="a", count=3, pool="p"),
        resource_slice([parts[1]], name="b", count=3, pool="p", nodeName="m"),
        counter_slice({"card": {"memory": "1"}}, count=3, pool="p", allNodes=True),
    ]
    inventory = Inventory(slices=slices, classes=classes())
    assert first(inventory) == "a"
    inventory.put_claim(holding("h", "b", pool="p"))
    assert first(inventory) is None


def test_nothing_is_compiled_again_while_nothing_changes() -> None:
    inventory = Inventory(slices=[resource_slice([device("a")])], classes=classes())
    view = inventory.view(node())
    answer = allocate(inventory, node(), WANTED)
    assert isinstance(answer, Allocation)
    commit(inventory, answer).undo()
    assert inventory.view(node()) is view
    inventory.put_slice(resource_slice([device("b")], name="other", pool="m", nodeName="m"))
    assert inventory.view(node()) is view
    assert inventory.view(node(zone="new")) is not view


def test_nodes_that_see_the_same_slices_share_them() -> None:
    inventory = Inventory(slices=[resource_slice([device("a")], allNodes=True)], classes=classes())
    one, other = inventory.view(node("n")), inventory.view(node("m"))
    assert one.devices is other.devices
    assert (one.node, other.node) == ("n", "m")
    assert first(inventory, "n") == first(inventory, "m") == "a"
    inventory.put_slice(resource_slice([device("b")], allNodes=True))
    assert first(inventory, "m") == "b"


def test_devices_that_agree_on_what_is_read_are_evaluated_once() -> None:
    def work(size: int, attribute: str) -> int:
        devices = [device(f"d{number}", model="AB"[number % 2], uuid=f"u{number}") for number in range(size)]
        inventory = Inventory(slices=[resource_slice(devices)], classes=classes())
        selector = f'device.attributes["{DRIVER}"].{attribute} != "C"'
        answer = allocate(inventory, node(), [claim("c", request("r", exactly(1, selector)))])
        assert isinstance(answer, Allocation)
        return answer.work

    assert work(50, "model") == work(2, "model")
    assert work(50, "uuid") > work(2, "uuid")
