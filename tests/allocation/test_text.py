"""What each kind of rejection reads like, held as files in `golden/`.

To write them anew after a change of wording: `DRAY_GOLDEN=write pytest tests/allocation/test_text.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dray.allocation import Inventory, Rejection, allocate
from dray.allocation.text import lines, summary, tree
from dray.api.objects import Object
from tests.allocation.claims import claim, classes, everything, exactly, holding, node, request
from tests.allocation.devices import DRIVER, ROOT, consumes, counter_slice, device, resource_slice

GOLDEN = Path(__file__).parent / "golden"
MODEL = f'device.attributes["{DRIVER}"].model'

Case = tuple[list[Object], list[Object], list[Object]]


def gpus(count: int, **values: Any) -> list[Object]:
    return [device(f"gpu-{number}", **{"model": "L4", **values}) for number in range(count)]


def one(*ways: Object, **more: Any) -> list[Object]:
    return [claim("training", request("gpus", *ways), **more)]


def not_selected() -> Case:
    devices = [*gpus(3), device("gpu-8", model="H100"), device("gpu-9", model="H100")]
    nics = resource_slice([device("nic-0")], name="nics", driver="nic.example.com")
    wanted = one(exactly(4, f'{MODEL} == "H100"'))
    return [resource_slice(devices), nics], wanted, []


def tainted() -> Case:
    taint = {"key": "example.com/maintenance", "value": "exchange", "effect": "NoSchedule"}
    return [resource_slice([{**each, "taints": [taint]} for each in gpus(2)])], one(exactly()), []


def in_use() -> Case:
    held = [holding("serving", "gpu-0", "gpu-1"), holding("notebook", "gpu-2")]
    return [resource_slice(gpus(4))], one(exactly(2)), held


def counters_short() -> Case:
    parts = [
        {**device(f"part-{number}"), "consumesCounters": [consumes("card-0", memory="20Gi")]} for number in range(3)
    ]
    whole = {**device("whole"), "consumesCounters": [consumes("card-0", memory="40Gi")]}
    slices = [resource_slice([*parts, whole], count=2), counter_slice({"card-0": {"memory": "40Gi"}}, count=2)]
    return slices, one(exactly(2)), [holding("half", "part-0")]


def groups_incompatible() -> Case:
    mig, vgpu = (
        {**device(name), "consumesCounters": [consumes("card-0", groups=[name], memory="1")]}
        for name in ("mig", "vgpu")
    )
    slices = [resource_slice([mig, vgpu], count=2), counter_slice({"card-0": {"memory": "4"}}, count=2)]
    return slices, one(exactly()), [holding("first", "mig")]


def capacity() -> Case:
    shared = {**device("shared", capacity={"memory": "80Gi"}), "allowMultipleAllocations": True}
    slices = [resource_slice([shared, device("small", capacity={"memory": "8Gi"}), device("bare")])]
    consumed = {"memory": "60Gi"}
    held = [holding("big", "shared", shareID="00000000-0000-0000-0000-000000000001", consumedCapacity=consumed)]
    return slices, one(exactly(capacity={"requests": {"memory": "30Gi"}})), held


def no_common_value() -> Case:
    devices = [device(f"gpu-{number}", root=f"pci0000:0{number // 2}") for number in range(6)]
    return [resource_slice(devices)], one(exactly(3), constraints=[{"matchAttribute": ROOT}]), []


def too_few_values() -> Case:
    devices = [device(f"gpu-{number}", rail=number % 2) for number in range(6)]
    return [resource_slice(devices)], one(exactly(3), constraints=[{"distinctAttribute": f"{DRIVER}/rail"}]), []


def attribute_absent() -> Case:
    return [resource_slice(gpus(2))], one(exactly(), constraints=[{"matchAttribute": ROOT}]), []


def too_few_together() -> Case:
    requests = [request("train", exactly(2)), request("test", exactly(1))]
    return [resource_slice(gpus(2))], [claim("both", *requests)], []


def shared_capacity_together() -> Case:
    devices = [{**device("s", capacity={"memory": "80Gi"}), "allowMultipleAllocations": True}]
    wanted = [claim(name, request("r", exactly(capacity={"requests": {"memory": "50Gi"}}))) for name in ("a", "b")]
    return [resource_slice(devices)], wanted, []


def counters_together() -> Case:
    parts = [
        {**device(f"part-{number}"), "consumesCounters": [consumes("card-0", memory="20Gi")]} for number in range(3)
    ]
    slices = [resource_slice(parts, count=2), counter_slice({"card-0": {"memory": "40Gi"}}, count=2)]
    return slices, one(exactly(3)), []


def all_or_nothing() -> Case:
    return [resource_slice(gpus(3))], one(everything()), [holding("other", "gpu-1")]


def alternatives() -> Case:
    large = exactly(1, f'{MODEL} == "H100"')
    return [resource_slice(gpus(1))], one(large, exactly(2)), []


def pool_incomplete() -> Case:
    return [resource_slice(gpus(2), count=3)], one(exactly()), []


def pool_invalid() -> Case:
    return [resource_slice([*gpus(1), *gpus(1)])], one(exactly()), []


def selector_fault() -> Case:
    return [resource_slice(gpus(1))], one(exactly(1, f'device.attributes["{DRIVER}"].memory > 4')), []


def entangled() -> Case:
    devices = [device("a", root="x", numa=0), device("b", root="x", numa=1), device("c", root="y", numa=0)]
    constraints = [{"matchAttribute": ROOT}, {"matchAttribute": f"{DRIVER}/numa"}]
    return [resource_slice(devices)], one(exactly(2), constraints=constraints), []


def operations() -> Case:
    return [resource_slice(gpus(1), skipNodeOperations=["*"])], one(exactly()), []


def other_node() -> Case:
    far = {**gpus(1)[0], "nodeName": "elsewhere"}
    near = {**device("nic", model="nic"), "nodeName": "n"}
    return [resource_slice([far, near], perDeviceNodeSelection=True)], one(exactly(1, f'{MODEL} == "L4"')), []


CASES: list[Callable[[], Case]] = [
    all_or_nothing,
    alternatives,
    attribute_absent,
    capacity,
    counters_short,
    counters_together,
    entangled,
    groups_incompatible,
    in_use,
    no_common_value,
    not_selected,
    operations,
    other_node,
    pool_incomplete,
    pool_invalid,
    selector_fault,
    shared_capacity_together,
    tainted,
    too_few_together,
    too_few_values,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_reads_as_it_did(case: Callable[[], Case]) -> None:
    slices, claims, allocated = case()
    inventory = Inventory(slices=slices, classes=classes(), claims=allocated)
    answer = allocate(inventory, node(), claims)
    assert isinstance(answer, Rejection)
    text = "\n".join([*lines(tree(answer, inventory)), "", summary(answer), ""])
    path = GOLDEN / f"{case.__name__}.txt"
    if os.environ.get("DRAY_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_every_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {case.__name__ for case in CASES}
