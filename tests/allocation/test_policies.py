"""What `pack` prefers."""

from __future__ import annotations

from typing import Any

from dray.allocation import KUBERNETES, PACK, Allocation, Inventory, allocate
from dray.api.objects import Object
from tests.allocation.claims import claim, classes, exactly, holding, node, request
from tests.allocation.devices import DRIVER, ROOT, consumes, counter_slice, device, resource_slice


def picks(slices: list[Object], allocated: list[Object], *ways: Object, policy: Any = PACK, **more: Any) -> list[str]:
    inventory = Inventory(slices=slices, classes=classes(), claims=allocated)
    answer = allocate(inventory, node(), [claim("c", request("r", *ways), **more)], policy=policy)
    assert isinstance(answer, Allocation), answer
    return [each["device"] for each in answer.results[0]["devices"]["results"]]


def test_the_smallest_device_that_fits() -> None:
    slices = [resource_slice([device(f"d{size}", capacity={"memory": f"{size}Gi"}) for size in (80, 24, 40)])]
    assert picks(slices, [], exactly()) == ["d24"]
    assert picks(slices, [], exactly(capacity={"requests": {"memory": "30Gi"}})) == ["d40"]
    assert picks(slices, [], exactly(), policy=KUBERNETES) == ["d80"]


def test_the_fullest_shared_device() -> None:
    slices = [
        resource_slice([{**device(name, capacity={"memory": "8"}), "allowMultipleAllocations": True} for name in "abc"])
    ]
    held = [
        holding(f"h{name}", name, shareID=f"s{name}", consumedCapacity={"memory": amount})
        for name, amount in (("b", "2"), ("c", "5"))
    ]
    wants = {"requests": {"memory": "2"}}
    assert picks(slices, held, exactly(capacity=wants)) == ["c"]
    assert picks(slices, held, exactly(capacity={"requests": {"memory": "4"}})) == ["b"]


def part(card: int, size: int, at: int) -> Object:
    slots = {f"s_{slot}": "1" for slot in range(at, at + size)}
    made = device(f"c{card}-{size}-{at}", capacity={"memory": str(size)}, size=size)
    return {**made, "consumesCounters": [consumes(f"card-{card}", memory=str(size), **slots)]}


def test_the_partition_that_breaks_no_larger_one() -> None:
    cards = {f"card-{card}": {"memory": "4", **{f"s-{slot}": "1" for slot in range(4)}} for card in (0, 1)}
    parts = [part(card, size, at) for card in (0, 1) for size in (1, 2, 4) for at in range(0, 4, size)]
    slices = [resource_slice(parts, count=2), counter_slice(cards, count=2)]
    size = f'device.attributes["{DRIVER}"].size == 1'
    assert picks(slices, [holding("h", "c1-1-0")], exactly(1, size)) == ["c1-1-1"]
    assert picks(slices, [holding("h", "c1-1-0")], exactly(1, size), policy=KUBERNETES) == ["c0-1-0"]


def test_a_partition_goes_where_many_others_are_in_use() -> None:
    # Both cards have as much left; but the first one is whole again as soon as one partition ends.
    cards = {f"card-{card}": {"memory": "4"} for card in (0, 1)}
    parts = [
        {**device(f"c{card}-{size}-{at}", size=size), "consumesCounters": [consumes(f"card-{card}", memory=str(size))]}
        for card in (0, 1)
        for size in (1, 2, 4)
        for at in range(0, 4, size)
    ]
    slices = [resource_slice(parts, count=2), counter_slice(cards, count=2)]
    held = [holding("h", "c0-2-0"), holding("i", "c1-1-0"), holding("j", "c1-1-1")]
    assert picks(slices, held, exactly(1, f'device.attributes["{DRIVER}"].size == 1')) == ["c1-1-2"]


def test_groups_are_kept_whole() -> None:
    slices = [resource_slice([device(f"d{number}", root=f"p{number // 2}") for number in range(4)])]
    held = [holding("h", "d3")]
    assert picks(slices, held, exactly()) == ["d2"]
    assert picks(slices, held, exactly(2), constraints=[{"matchAttribute": ROOT}]) == ["d0", "d1"]


def test_devices_that_must_be_waited_for_stay_last() -> None:
    waiting = {**device("w", capacity={"memory": "1"}), "bindingConditions": ["ready"]}
    slices = [
        resource_slice([waiting], name="a", pool="a"),
        resource_slice([device("d", capacity={"memory": "9"})], name="b", pool="b"),
    ]
    assert picks(slices, [], exactly()) == ["d"]
