"""Which slices make up a pool on a node."""

from __future__ import annotations

from dray.allocation import Inventory
from dray.api.gates import ALL_GATES
from dray.api.objects import Object
from tests.allocation.claims import node
from tests.allocation.devices import consumes, counter_slice, device, resource_slice


def seen(*slices: Object, where: str = "n", **labels: str) -> list[tuple[str, str, list[str]]]:
    """The pools a node sees: name, state, devices."""
    view = Inventory(slices=slices).view(node(where, **labels))
    return [
        (pool.name, pool.state.value, [device.name for each in pool.slices for device in each.devices])
        for pool in view.pools
    ]


def test_the_newest_generation_counts() -> None:
    old = resource_slice([device("old")], name="a")
    new = resource_slice([device("new")], name="b", generation=2)
    assert seen(old, new) == seen(new, old) == [("n", "complete", ["new"])]


def test_fewer_and_more_slices_than_announced_are_incomplete() -> None:
    assert seen(resource_slice([device("d")], count=2)) == [("n", "incomplete", [])]
    two = [resource_slice([device(name)], name=name) for name in ("a", "b")]
    assert seen(*two) == [("n", "incomplete", [])]


def test_slices_for_other_nodes_complete_a_pool() -> None:
    here = resource_slice([device("here")], name="here", count=2)
    there = resource_slice([device("there")], name="there", count=2, nodeName="m")
    assert seen(here, there) == [("n", "complete", ["here"])]
    assert seen(here, there, where="m") == [("n", "complete", ["there"])]


def test_a_newer_generation_elsewhere_hides_an_incomplete_pool_only() -> None:
    newer = resource_slice([device("there")], name="there", generation=2, nodeName="m")
    assert seen(resource_slice([device("d")], count=2), newer) == []
    assert seen(resource_slice([device("d")]), newer) == [("n", "complete", ["d"])]


def test_names_given_twice_make_a_pool_invalid() -> None:
    twice = [resource_slice([device("d")], name=name, count=2) for name in ("a", "b")]
    assert seen(*twice) == [("n", "invalid", [])]


def test_counters_must_exist_once() -> None:
    part = {**device("p"), "consumesCounters": [consumes("card", memory="1")]}
    good = counter_slice({"card": {"memory": "1"}}, count=2)
    assert seen(resource_slice([part], count=2), good) == [("n", "complete", ["p"])]
    assert seen(resource_slice([part])) == [("n", "invalid", [])]
    other = counter_slice({"card": {"cores": "1"}}, count=2)
    assert seen(resource_slice([part], count=2), other) == [("n", "invalid", [])]
    thrice = [counter_slice({"card": {"memory": "1"}}, name=name, count=3) for name in ("x", "y")]
    assert seen(resource_slice([part], count=3), *thrice) == [("n", "invalid", [])]


def test_pools_with_binding_conditions_come_last() -> None:
    waiting = {**device("w"), "bindingConditions": ["ready"]}
    slices = [resource_slice([waiting], name="a", pool="a"), resource_slice([device("d")], name="b", pool="b")]
    assert [name for name, _, _ in seen(*slices)] == ["b", "a"]


def test_nodes_are_matched_by_name_label_or_device() -> None:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}
    slices = [
        resource_slice([device("a")], name="a", pool="a", allNodes=True),
        resource_slice([device("b")], name="b", pool="b", nodeSelector=zone),
        resource_slice(
            [
                {**device("c"), "nodeName": "n"},
                {**device("d"), "allNodes": True},
                {**device("e"), "nodeSelector": zone},
            ],
            name="c",
            pool="c",
            perDeviceNodeSelection=True,
        ),
    ]
    inventory = Inventory(slices=slices)

    def here(where: Object) -> list[str]:
        view = inventory.view(where)
        return [view.devices[rank].name for rank in view.ranks(view.here)]

    assert here(node("n")) == ["a", "c", "d"]
    assert here(node("m", zone="z")) == ["a", "b", "d", "e"]
    assert here(node("m", zone="y")) == ["a", "d"]


def test_slices_that_need_a_feature_that_is_off_are_left_out() -> None:
    part = {**device("p"), "consumesCounters": [consumes("card", groups=["g"], memory="1")]}
    slices = [resource_slice([part], count=2), counter_slice({"card": {"memory": "1"}}, count=2)]
    gates = ALL_GATES.switched(DRADeviceCompatibilityGroups=False)
    (pool,) = Inventory(slices=slices, gates=gates).view(node()).pools
    assert pool.state.value == "incomplete"
