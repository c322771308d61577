"""What the devices of a claim take from the node itself: cpu, memory, huge pages.

A device may *be* such a resource (a mapping: charged once for the claim, which then serves one pod only) or need some
of it beside itself (an overhead: charged to every pod, and for each container that refers to the claim).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.allocation.devices import Device, quantity
from dray.allocation.inventory import Inventory
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity


class ChargeError(ValueError):
    """A mapping refers to consumed capacity that the result does not have."""


@dataclass(slots=True)
class NodeCharge:
    """Quantities that a claim takes from its node, by resource name, sorted."""

    mapping: dict[str, Quantity] = field(default_factory=dict)
    per_pod: dict[str, Quantity] = field(default_factory=dict)
    per_container: dict[str, Quantity] = field(default_factory=dict)

    @property
    def sharable(self) -> bool:
        """Returns True if several pods may use the claim."""
        return not self.mapping

    def demand(self, containers: int) -> dict[str, Quantity]:
        """Returns the node resources of a pod in which this many containers refer to the claim."""
        total = dict(self.mapping)
        for name, amount in self.per_pod.items():
            _add(total, name, amount)
        for name, amount in self.per_container.items():
            _add(total, name, _times(amount, Quantity.of(containers)))
        return dict(sorted(total.items()))


def charge(inventory: Inventory, results: Sequence[Object]) -> NodeCharge:
    """Returns what a claim's results take from their node. Raises ChargeError."""
    total = NodeCharge()
    for result in results:
        device = inventory.device((result["driver"], result["pool"], result["device"]))
        if device is not None:
            _charge_device(total, device, result)
    return NodeCharge(*(dict(sorted(part.items())) for part in (total.mapping, total.per_pod, total.per_container)))


def _charge_device(total: NodeCharge, device: Device, result: Object) -> None:
    for name, entry in mapping(device.spec.get("nodeAllocatableResources")).items():
        amount = _mapped(mapping(entry.get("mapping")), device, result)
        if amount is not None:
            _add(total.mapping, name, amount)
        overhead = mapping(entry.get("overhead"))
        if overhead.get("perPod") is not None:
            _add(total.per_pod, name, quantity(overhead["perPod"]))
        if overhead.get("perContainer") is not None:
            _add(total.per_container, name, quantity(overhead["perContainer"]))


def _mapped(mapping: Object, device: Device, result: Object) -> Quantity | None:
    if mapping.get("deviceMultiplier") is not None:
        return quantity(mapping["deviceMultiplier"])
    key = mapping.get("capacityKey")
    if key is None:
        return None
    consumed = result.get("consumedCapacity")
    if consumed is None:
        raise ChargeError(f"device {'/'.join(device.id)} maps capacity {key}, but the result has no consumed capacity")
    return _times(quantity(consumed[key]), quantity(mapping["capacityMultiplier"])) if key in consumed else None


def _add(amounts: dict[str, Quantity], name: str, amount: Quantity) -> None:
    known = amounts.get(name)
    amounts[name] = amount if known is None else known + amount


def _times(one: Quantity, other: Quantity) -> Quantity:
    """The product, exact to the nano and rounded up below it."""
    nanos = -((-one.nanos * other.nanos) // 10**9)
    whole, rest = divmod(nanos, 10**9)
    return Quantity(nanos, -9, one.format, wide=True) if rest else Quantity(whole, 0, one.format)
