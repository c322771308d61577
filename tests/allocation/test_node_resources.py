from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import ChargeError, Inventory, charge
from tests.allocation.devices import DRIVER, device, resource_slice


def inventory(**resources: Any) -> Inventory:
    return Inventory(slices=[resource_slice([{**device("d"), "nodeAllocatableResources": resources}])])


def result(**more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": DRIVER, "pool": "n", "device": "d", **more}


def texts(amounts: dict[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def test_a_device_that_is_a_resource_is_charged_once() -> None:
    total = charge(inventory(cpu={"mapping": {"deviceMultiplier": "2"}}), [result(), result()])
    assert texts(total.demand(containers=3)) == {"cpu": "4"}
    assert not total.sharable


def test_consumed_capacity_is_multiplied() -> None:
    mapping = {"mapping": {"capacityKey": "cores", "capacityMultiplier": "500m"}}
    total = charge(inventory(cpu=mapping), [result(consumedCapacity={"cores": "3"})])
    assert texts(total.mapping) == {"cpu": "1500m"}
    assert charge(inventory(cpu=mapping), [result(consumedCapacity={"memory": "1"})]).mapping == {}
    with pytest.raises(ChargeError, match="maps capacity cores"):
        charge(inventory(cpu=mapping), [result()])


def test_overhead_is_charged_to_pods_and_containers() -> None:
    total = charge(inventory(memory={"overhead": {"perPod": "1Gi", "perContainer": "256Mi"}}), [result()])
    assert texts(total.demand(containers=2)) == {"memory": "1536Mi"}
    assert total.sharable


def test_a_device_that_is_gone_takes_nothing() -> None:
    assert charge(Inventory(), [result()]).demand(1) == {}
