"""Claims of a pod whose devices have a value in common, by an annotation of the claims."""

from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import Allocation, Inventory, Rejection, allocate, commit, confirm
from dray.api.objects import Object
from dray.scheduling.cluster.device_demand import DeviceDemands
from tests.allocation.claims import claim, classes, exactly, holding, node, request
from tests.allocation.devices import ROOT, device, resource_slice

NIC = "nic.example.com"


def machine() -> list[Object]:
    """Two GPUs and two NICs on roots a and b, the NICs in the other order."""
    gpus = [device("gpu-0", root="a"), device("gpu-1", root="b")]
    nics = [device("nic-0", root="b"), device("nic-1", root="a")]
    return [resource_slice(gpus), resource_slice(nics, name="nics", driver=NIC)]


def wanted(name: str, of: str, pod: str = "p", attribute: str = ROOT) -> Object:
    made = claim(name, request("r", exactly(of=of)))
    made["metadata"]["annotations"] = {"dray.dev/match-attribute": attribute}
    if pod:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"uid-of-{pod}", "controller": True}
        made["metadata"]["ownerReferences"] = [owner]
    return made


def plain(name: str, of: str) -> Object:
    return claim(name, request("r", exactly(of=of)))


def ask(claims: list[Object], allocated: list[Object] | None = None, **options: Any) -> Any:
    return allocate(Inventory(slices=machine(), classes=classes(), claims=allocated or ()), node(), claims, **options)


def names(answer: Any) -> list[str]:
    assert isinstance(answer, Allocation), answer
    return [each["device"] for result in answer.results for each in result["devices"]["results"]]


def test_devices_of_two_claims_share_a_root() -> None:
    assert names(ask([plain("g", "gpu"), plain("n", "nic")])) == ["gpu-0", "nic-0"]
    assert names(ask([wanted("g", "gpu"), wanted("n", "nic")])) == ["gpu-0", "nic-1"]
    # One that says nothing of it is left alone.
    assert names(ask([wanted("g", "gpu"), plain("n", "nic")])) == ["gpu-0", "nic-0"]


def test_claims_by_name_are_the_pods_too() -> None:
    assert names(ask([wanted("g", "gpu", pod=""), wanted("n", "nic")])) == ["gpu-0", "nic-1"]


def test_claims_of_two_pods_are_told_apart() -> None:
    claims = [wanted(f"{kind}-{pod}", kind, pod) for pod in ("p", "q") for kind in ("gpu", "nic")]
    assert names(ask(claims)) == ["gpu-0", "nic-1", "gpu-1", "nic-0"]


def test_a_claim_that_has_devices_takes_part_with_them() -> None:
    held = holding("n", "nic-0", driver=NIC)
    held["metadata"]["annotations"] = {"dray.dev/match-attribute": ROOT}
    assert names(ask([wanted("g", "gpu")], [held], beside=[held])) == ["gpu-1"]
    inventory = Inventory(slices=machine(), classes=classes(), claims=[held])
    first = allocate(inventory, node(), [plain("g", "gpu")])
    assert names(first) == ["gpu-0"]
    assert isinstance(first, Allocation)
    assert confirm(inventory, node(), [wanted("g", "gpu")], first.results, beside=[held]) is None


def test_what_cannot_be_had_is_explained_with_both_claims() -> None:
    inventory = Inventory(slices=machine(), classes=classes())
    blocked = allocate(inventory, node(), [claim("x", request("r", exactly(1, 'device.driver == "gpu.example.com"')))])
    assert isinstance(blocked, Allocation)
    commit(inventory, blocked)
    other = plain("y", "nic")
    taken = allocate(inventory, node(), [other])
    assert isinstance(taken, Allocation)
    commit(inventory, taken)
    answer = allocate(inventory, node(), [wanted("g", "gpu"), wanted("n", "nic")])
    assert isinstance(answer, Rejection)
    [conflict] = answer.conflicts
    assert set(conflict.requests) == {"g/r", "n/r"}


def test_an_attribute_without_domain_is_refused() -> None:
    answer = ask([wanted("g", "gpu", attribute="numaNode")])
    assert isinstance(answer, Rejection)
    assert "'numaNode' is no attribute with its domain" in answer.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([wanted("g", "gpu")], [plain("g", "gpu")]),
        ([wanted("g", "gpu")], [wanted("g", "gpu", attribute="example.com/a")]),
    ],
)
def test_demands_differ_where_alignment_does(one: list[Object], other: list[Object]) -> None:
    demands = DeviceDemands()
    assert demands.of(one, frozenset(), {}, None) is not demands.of(other, frozenset(), {}, None)
    assert demands.of(one, frozenset(), {}, None) is demands.of(one, frozenset(), {}, None)
