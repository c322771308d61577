from __future__ import annotations

import random

from dray.allocation import Allocation, Inventory, Shortlist, allocate, commit
from dray.api.objects import Object
from tests.allocation.claims import claim, classes, everything, exactly, holding, node, request
from tests.allocation.devices import DRIVER, device, resource_slice

LARGE = f'device.attributes["{DRIVER}"].size > 1'


def cluster(sizes: list[list[int]]) -> tuple[Inventory, list[Object]]:
    nodes = [node(f"n{number}") for number in range(len(sizes))]
    slices = [
        resource_slice(
            [device(f"d{at}", size=size) for at, size in enumerate(own)],
            name=f"s{number}",
            pool=f"n{number}",
            nodeName=f"n{number}",
        )
        for number, own in enumerate(sizes)
    ]
    return Inventory(slices=slices, classes=classes()), nodes


def named(shortlist: Shortlist, *ways: Object) -> list[str]:
    return [each["metadata"]["name"] for each in shortlist.nodes([claim("c", request("r", *ways))])]


def test_names_the_nodes_with_enough_free_devices() -> None:
    inventory, nodes = cluster([[1], [2, 2], [], [1, 2, 2]])
    shortlist = Shortlist(inventory, nodes)
    assert named(shortlist, exactly()) == ["n0", "n1", "n3"]
    assert named(shortlist, exactly(2, LARGE)) == ["n1", "n3"]
    assert named(shortlist, exactly(3), exactly(2, LARGE)) == ["n1", "n3"]
    assert named(shortlist, exactly(of="nic")) == []
    assert named(shortlist, everything()) == ["n0", "n1", "n2", "n3"]
    assert named(shortlist, exactly(of="missing")) == ["n0", "n1", "n2", "n3"]


def test_follows_claims_and_slices() -> None:
    inventory, nodes = cluster([[1], [1]])
    shortlist = Shortlist(inventory, nodes)
    held = holding("h", "d0", pool="n0")
    inventory.put_claim(held)
    assert named(shortlist, exactly()) == ["n1"]
    assert named(shortlist, exactly(adminAccess=True)) == ["n0", "n1"]
    inventory.remove_claim(held)
    assert named(shortlist, exactly()) == ["n0", "n1"]
    inventory.remove_slice("s1")
    assert named(shortlist, exactly()) == ["n0"]
    shortlist.close()


def test_never_leaves_out_a_node_that_serves() -> None:
    dice = random.Random(7)
    inventory, nodes = cluster([[dice.randint(1, 2) for _ in range(dice.randint(0, 4))] for _ in range(30)])
    shortlist = Shortlist(inventory, nodes)
    for number in range(120):
        way = exactly(dice.randint(1, 2), *([LARGE] if dice.random() < 0.5 else []))
        wanted = [claim(f"c{number}", request("r", way), request("s", exactly()))]
        answers = [allocate(inventory, each, wanted, explain=False) for each in nodes]
        serving = [answer.node for answer in answers if isinstance(answer, Allocation)]
        listed = [each["metadata"]["name"] for each in shortlist.nodes(wanted)]
        assert set(serving) <= set(listed)
        if serving:
            commit(inventory, next(answer for answer in answers if isinstance(answer, Allocation)))


def test_a_node_where_a_selector_fails_is_asked() -> None:
    inventory, nodes = cluster([[1]])
    assert named(Shortlist(inventory, nodes), exactly(1, f'device.attributes["{DRIVER}"].nothing')) == ["n0"]
