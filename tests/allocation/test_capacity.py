from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.capacity import CapacityError, consumption
from dray.allocation.devices import Device
from dray.api.quantity import Quantity

RANGE = {"min": "5", "max": "40", "step": "5"}


def consumed(
    policy: dict[str, Any] | None, wanted: str | None, *, value: str = "80", fractional: bool = True
) -> str | None:
    entry: dict[str, Any] = {"value": value}
    if policy is not None:
        entry["requestPolicy"] = policy
    device = Device("d", "p", {"name": "x", "capacity": {"memory": entry}})
    asked = {} if wanted is None else {"memory": Quantity.parse(wanted)}
    amounts = consumption(device, asked, fractional=fractional)
    return None if amounts is None else str(amounts["memory"])


@pytest.mark.parametrize(
    ("policy", "wanted", "expected"),
    [
        (None, None, "80"),
        (None, "7", "7"),
        (None, "81", None),
        ({"default": "10"}, None, "10"),
        ({"default": "10"}, "7", "7"),
        ({"validRange": RANGE}, "1", "5"),
        ({"validRange": RANGE}, "5", "5"),
        ({"validRange": RANGE}, "6", "10"),
        ({"validRange": RANGE}, "41", None),
        ({"validRange": {"min": "5"}}, "6", "6"),
        ({"validRange": {"max": "40"}}, "6", "6"),
        ({"validValues": ["10", "20"]}, "11", "20"),
        ({"validValues": ["10", "20"]}, "21", None),
        ({"default": "7", "validValues": ["10"]}, None, "7"),
        ({"validRange": {"min": "500m", "step": "250m"}}, "600m", "750m"),
        ({"validRange": {"min": "1", "step": "1"}}, "1500m", "2"),
        ({"validRange": {"min": "1", "step": "500m"}}, "1100m", "1500m"),
    ],
)
def test_amounts(policy: dict[str, Any] | None, wanted: str | None, expected: str | None) -> None:
    assert consumed(policy, wanted) == expected


def test_without_fractions_amounts_are_rounded_up() -> None:
    policy = {"validRange": {"min": "1", "step": "1"}}
    assert consumed(policy, "1500m", fractional=False) == "2"


def test_results_have_the_format_of_the_step() -> None:
    policy = {"validRange": {"min": "1Gi", "step": "1Gi"}}
    assert consumed(policy, "1500Mi", value="80Gi") == "2Gi"


def test_what_cannot_be_computed_ends_the_attempt() -> None:
    policy = {"validRange": {"min": "1", "step": "1"}}
    with pytest.raises(CapacityError, match='capacity "memory": capacity request cannot be represented'):
        consumed(policy, "10E")
    with pytest.raises(CapacityError, match="cannot be represented"):
        consumed(policy, "1u")
    with pytest.raises(CapacityError, match="negative"):
        consumed(None, "-1")


def test_a_capacity_the_device_lacks_makes_it_unsuitable() -> None:
    device = Device("d", "p", {"name": "x"})
    assert consumption(device, {"memory": Quantity.of(1)}, fractional=True) is None
    assert consumption(device, {}, fractional=True) == {}
