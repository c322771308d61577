"""States of devices, from the objects alone."""

from __future__ import annotations

from typing import Any

from dray.allocation.device_states import device_states
from dray.answers.views.device_tables import lines, state_text
from dray.testing.objects import claim, pod

DRIVER = "gpu.example.com"


def slice_(*devices: Any, generation: int = 1, name: str = "s", **spec: Any) -> Any:
    pool = {"name": "n", "generation": generation, "resourceSliceCount": 1}
    return {
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": list(devices), **spec},
    }


def held(name: str, *devices: str, **more: Any) -> Any:
    results = [{"request": "r", "driver": DRIVER, "pool": "n", "device": each, **more} for each in devices]
    return {**claim(name, namespace="default"), "status": {"allocation": {"devices": {"results": results}}}}


def states(*arguments: Any) -> dict[str, str]:
    return {each.place[2]: state_text(each) for each in device_states(*arguments)}


def test_held_by_claims_and_pods() -> None:
    user = pod("p", claims=["c"], namespace="default")
    (first, second) = device_states([slice_({"name": "a"}, {"name": "b"})], [held("c", "b")], [user])
    assert (first.state, second.state) == ("free", "allocated")
    assert [(each.claim, each.pods) for each in second.holders] == [("default/c", ("p",))]
    assert lines([second])[1].split() == ["n", DRIVER, "b", "-", "allocated", "default/c", "p"]


def test_shares_add_up() -> None:
    device = {"name": "a", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
    claims = [held(name, "a", consumedCapacity={"memory": "20Gi"}) for name in "xy"]
    assert states([slice_(device)], claims, []) == {"a": "shared: 40Gi of 80Gi memory"}
    assert states([slice_(device)], [], []) == {"a": "free"}


def test_a_gpu_whose_partition_is_in_use_is_blocked() -> None:
    def counted(name: str, amount: str) -> Any:
        counters = {"counterSet": "gpu", "counters": {"slices": {"value": amount}}}
        return {"name": name, "consumesCounters": [counters]}

    counters = slice_(name="0", sharedCounters=[{"name": "gpu", "counters": {"slices": {"value": "7"}}}])
    devices = slice_(counted("whole", "7"), counted("big", "4"), counted("small", "3"), counted("other", "4"))
    assert states([counters, devices], [held("c", "big")], []) == {
        "whole": "blocked",
        "big": "allocated",
        "small": "free",
        "other": "blocked",
    }


def test_taints_of_slices_and_rules() -> None:
    taint = {"key": "broken", "effect": "NoExecute"}
    rule = {
        "spec": {"deviceSelector": {"driver": DRIVER, "device": "b"}, "taint": {"key": "x", "effect": "NoSchedule"}}
    }
    noted = {"name": "c", "taints": [{"key": "noted", "effect": "None"}]}
    devices = [slice_({"name": "a", "taints": [taint]}, {"name": "b"}, noted)]
    assert states(devices, [held("c", "b")], [], [rule]) == {
        "a": "tainted (broken:NoExecute)",
        "b": "allocated, tainted (x:NoSchedule)",
        "c": "free",
    }


def test_only_the_newest_generation_of_a_pool_counts_and_who_looks_holds_nothing() -> None:
    old, new = slice_({"name": "gone"}, name="1"), slice_({"name": "here"}, generation=2, name="2")
    assert states([old, new], [held("c", "here", adminAccess=True)], []) == {"here": "free"}
