"""What rejections come to, which node came nearest, and which nodes say the same."""

from __future__ import annotations

from typing import Any

from dray.allocation import Inventory, Rejection, allocate
from dray.allocation.conclusions import Apart, NoneTogether, NothingSuitable, Short, Unjudged, conclude
from dray.allocation.nearness import alike, nearest
from dray.allocation.text import Reasoning, Tree, concluding, lines, summary
from dray.api.objects import Object
from tests.allocation.claims import claim, classes, exactly, holding, node, request
from tests.allocation.devices import DRIVER, ROOT, device, resource_slice

MODEL = f'device.attributes["{DRIVER}"].model'


def gpus(place: str, *models: str, **values: Any) -> Object:
    devices = [device(f"gpu-{number}", model=model, **values) for number, model in enumerate(models)]
    return resource_slice(devices, name=place, pool=place, nodeName=place)


def held(name: str, place: str, *devices: str) -> Object:
    made = holding(name, *devices)
    for each in made["status"]["allocation"]["devices"]["results"]:
        each["pool"] = place
    return made


def asked(inventory: Inventory, *wanted: Object) -> list[Rejection]:
    """What every node says that a slice is for."""
    places = sorted({slice_.node_name for slice_ in inventory._slices.values()})
    answers = [allocate(inventory, node(place), list(wanted)) for place in places]
    assert all(isinstance(each, Rejection) for each in answers)
    return [each for each in answers if isinstance(each, Rejection)]


def said(inventory: Inventory, *wanted: Object) -> str:
    conclusion = conclude(asked(inventory, *wanted))
    assert conclusion is not None
    return concluding(conclusion, inventory)


def world(*slices: Object, claims: tuple[Object, ...] = ()) -> Inventory:
    return Inventory(slices=slices, classes=classes(), claims=claims)


def test_the_node_where_least_is_missing() -> None:
    inventory = world(gpus("a", "L4"), gpus("b", "L4", "L4", "L4"), gpus("c", *["H100"] * 8))
    wanted = claim("six", request("gpus", exactly(6, f'{MODEL} == "L4"')))
    rejections = asked(inventory, wanted)
    found = nearest(rejections)
    assert found is not None
    assert found.node == "b"
    assert isinstance(conclude(rejections), Short)
    assert said(inventory, wanted) == "3 devices short on the best node, b; gpus: needs 6, 3 available"


def test_devices_in_use_are_nearer_than_devices_of_another_kind() -> None:
    inventory = world(gpus("a", *["H100"] * 8), gpus("b", "L4"), claims=(held("other", "b", "gpu-0"),))
    wanted = claim("one", request("gpus", exactly(1, f'{MODEL} == "L4"')))
    assert said(inventory, wanted) == (
        "1 device short on the best node, b; gpus: needs 1, 0 available (1 in use by default/other); "
        "would fit on b if freed: default/other"
    )
    found = nearest(asked(inventory, wanted))
    assert found is not None
    assert found.node == "b"


def test_too_small_is_nearer_than_not_selected() -> None:
    small = device("shared", capacity={"memory": "48Gi"})
    inventory = world(gpus("a", "H100", "H100"), resource_slice([small], name="b", pool="b", nodeName="b"))
    wanted = claim("one", request("gpus", exactly(capacity={"requests": {"memory": "60Gi"}})))
    assert isinstance(conclude(asked(inventory, wanted)), NothingSuitable)
    assert said(inventory, wanted) == (
        "no node has a device of class gpu that request gpus takes; the nearest is b/shared, "
        "too small: needs 60Gi memory, has 48Gi"
    )


def test_a_driver_without_slices_is_named_and_no_device_of_another_driver_is_near() -> None:
    inventory = world(gpus("a", "H100"), gpus("b", "H100"))
    inventory.put_class(
        {"metadata": {"name": "fpga"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'fpga.org'"}}]}}
    )
    wanted = claim("one", request("card", exactly(of="fpga")))
    assert said(inventory, wanted) == (
        "no ResourceSlice of driver fpga.org exists; is the driver running? (device class fpga)"
    )
    elsewhere = device("card")
    inventory.put_slice(resource_slice([elsewhere], name="f", pool="f", nodeName="f", driver="fpga.org"))
    answer = allocate(inventory, node("a"), [wanted])
    assert isinstance(answer, Rejection)
    conclusion = conclude([answer])
    assert conclusion is not None
    assert concluding(conclusion, inventory) == "node a has no device of class fpga that request card takes"
    assert summary(answer) == "card: needs 1, 0 available (no device of driver fpga.org there)"


def test_the_rule_that_taints_a_device_is_named() -> None:
    taint = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
    rule = {"metadata": {"name": "quarantine"}, "spec": {"deviceSelector": {"device": "gpu-0"}, "taint": taint}}
    inventory = Inventory(slices=[gpus("a", "H100")], classes=classes(), taint_rules=[rule])
    told = said(inventory, claim("one", request("gpus", exactly(1))))
    assert "1 tainted sick=yes:NoSchedule by DeviceTaintRule quarantine, not tolerated" in told


def test_a_misspelt_attribute_is_answered_with_the_right_one() -> None:
    inventory = world(gpus("a", "H100"))
    wanted = claim("one", request("gpus", exactly(1, f'device.attributes["{DRIVER}"].Model == "H100"')))
    assert said(inventory, wanted).endswith("no such key: Model; did you mean model?")


def test_the_value_that_was_met_stands_in_the_conclusion() -> None:
    inventory = world(gpus("a", "NVIDIA H100"))
    wanted = claim("one", request("gpus", exactly(1, f'device.driver == "{DRIVER}" && {MODEL} == "B200"')))
    assert said(inventory, wanted) == (
        "node a has no device of class gpu that request gpus takes; the nearest is a/gpu-0, "
        'not selected by request, selector 1 (model is "NVIDIA H100")'
    )


def test_no_node_has_both() -> None:
    inventory = world(gpus("a", "L4"), gpus("b", "H100"))
    requests = [request("g", exactly(1, f'{MODEL} == "L4"')), request("v", exactly(1, f'{MODEL} == "H100"'))]
    wanted = claim("both", *requests)
    assert conclude(asked(inventory, wanted)) == NoneTogether(("g", "v"))
    assert said(inventory, wanted) == "no node has both g and v"
    either = request("w", exactly(1, f'{MODEL} == "H100" || {MODEL} == "L4"'))
    assert said(inventory, claim("all", *requests, either)) == "no node has both g and v"
    third = claim("all", *requests, request("w", exactly(1, f'{MODEL} == "A10"')))
    assert said(world(gpus("a", "L4"), gpus("b", "H100"), gpus("c", "A10")), third) == "no node has all of g, v and w"


def test_devices_that_do_not_go_together() -> None:
    roots = [device(f"gpu-{number}", root=f"pci0000:0{number}") for number in range(2)]
    inventory = world(resource_slice(roots), gpus("b", "L4"))
    wanted = claim("pair", request("gpus", exactly(2)), constraints=[{"matchAttribute": ROOT}])
    assert isinstance(conclude(asked(inventory, wanted)), Apart)
    assert said(inventory, wanted).startswith("node n has enough devices, but request gpus needs 2 devices with one")


def test_a_class_that_does_not_exist() -> None:
    wanted = claim("one", request("r", {**exactly(), "deviceClassName": "tpu"}))
    inventory = world(gpus("a", "L4"), gpus("b", "L4"))
    assert isinstance(conclude(asked(inventory, wanted)), Unjudged)
    assert "tpu" in said(inventory, wanted)


def test_nothing_to_conclude_from() -> None:
    assert conclude([]) is None


def full(number: int) -> Inventory:
    places = [f"n{index:03}" for index in range(number)]
    users = tuple(held(f"{place}-{gpu}", place, f"gpu-{gpu}") for place in places for gpu in range(4))
    return world(*(gpus(place, *["H100"] * 4) for place in places), claims=users)


def test_nodes_that_say_the_same_share_a_tree() -> None:
    inventory = full(30)
    rejections = asked(inventory, claim("two", request("gpus", exactly(2))))
    assert [len(group) for group in alike(rejections)] == [30]
    reasoning = Reasoning(inventory)
    drawn = list(lines(Tree("", reasoning.trees(rejections))))
    assert drawn == [
        "",
        "└─ 30 nodes (n000, n001, n002, n003 and 26 more): do not fit",
        "   ├─ claim default/two",
        "   │  └─ request gpus: needs 2, 0 available on each",
        "   │     └─ 4 devices in use by default/n000-0, default/n000-1, default/n000-2, default/n000-3 and 116 more",
        "   └─ would fit on n000 if freed: default/n000-2, default/n000-3",
    ]
    assert said(inventory, claim("two", request("gpus", exactly(2)))).startswith(
        "2 devices short on each of 30 nodes; "
    )


def test_many_claims_in_the_way_on_one_node_are_one_line() -> None:
    inventory = full(1)
    [tree] = Reasoning(inventory).trees(asked(inventory, claim("two", request("gpus", exactly(2)))))
    assert [each.label for each in tree.branches[0].branches[0].branches] == [
        "4 devices in use by default/n000-0, default/n000-1, default/n000-2, default/n000-3: "
        "n000/gpu-0, n000/gpu-1, n000/gpu-2, n000/gpu-3"
    ]


def test_more_kinds_of_nodes_than_can_be_shown_are_counted() -> None:
    inventory = world(*(gpus(f"n{number}", *["L4"] * number) for number in range(1, 15)))
    trees = Reasoning(inventory).trees(asked(inventory, claim("many", request("gpus", exactly(20)))))
    assert trees[0].label == "node n14: does not fit"
    assert trees[-1].label == "6 more nodes do not fit for other reasons; --node NAME asks one of them"


def test_selectors_are_written_once_and_values_beside_them() -> None:
    nics = resource_slice([device("nic-0")], name="nics", pool="a-nics", driver="nic.example.com", nodeName="a")
    inventory = world(gpus("a", "L4", "L4", "A10"), gpus("b", "H100"), nics)
    wanted = claim("one", request("gpus", exactly(2, f'{MODEL} == "B200"')))
    reasoning = Reasoning(inventory)
    trees = reasoning.trees(asked(inventory, wanted)) + reasoning.selectors()
    drawn = "\n".join(lines(Tree("", trees)))
    assert drawn.count("B200") == 1
    assert '3 devices not selected by request, selector 1 (model is "L4" (2), "A10" (1)): a/gpu-0' in drawn
    assert '1 device not selected by request, selector 1 (model is "H100"): b/gpu-0' in drawn
    assert drawn.index("a/gpu-0") < drawn.index("1 device of other drivers (nic.example.com): a-nics/nic-0")


def test_a_summary_says_how_much_it_leaves_out() -> None:
    inventory = full(1)
    [rejection] = asked(inventory, claim("two", request("gpus", exactly(2))))
    assert summary(rejection) == (
        "gpus: needs 2, 0 available (4 in use by default/n000-0, default/n000-1, default/n000-2, default/n000-3)"
    )
    taint = {"key": "k", "effect": "NoSchedule"}
    devices = [
        {**device("a", model="H100"), "taints": [taint]},
        device("b", model="L4"),
        device("c", model="L4"),
        device("d", model="H100"),
    ]
    nics = resource_slice([device("nic")], name="nics", driver="nic.example.com")
    inventory = world(resource_slice(devices), nics, claims=(held("other", "n", "d"),))
    [rejection] = asked(inventory, claim("one", request("r", exactly(1, f'{MODEL} == "H100"'))))
    assert summary(rejection).endswith("(1 in use by default/other; 1 tainted k=:NoSchedule, not tolerated; 2 more)")


def test_a_pool_that_lacks_slices_is_named() -> None:
    inventory = world(resource_slice([device("gpu-0")], count=3))
    assert said(inventory, claim("one", request("r", exactly()))) == (
        "1 device short on node n; r: needs 1, 0 available; pool gpu.example.com/n is incomplete: 1 of 3 slices"
    )
