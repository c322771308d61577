"""Devices and pools as a driver declares them, and the documents they become in ResourceSlices.

A driver declares pools; into which slices their devices go is the business of `dray.driver.slices`. Names and rules
are those of the API: an attribute without a domain belongs to the driver's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dray.api.objects import Object
from dray.api.quantity import Quantity
from dray.driver.errors import DriverError


class Version(str):
    """An attribute value that is a semantic version, such as `Version("12.4.0")`."""

    __slots__ = ()


Scalar = str | int | bool
"""A `Version` is a version, any other `str` a string."""
Attribute = Scalar | Sequence[Scalar]
Amount = str | int | Quantity
"""A quantity: `"40Gi"`, `7`."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """A capacity of a device; `request_policy` is `requestPolicy` of the API, for devices that claims share."""

    value: Amount
    request_policy: Object | None = None


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps claims without a toleration off a device; `NoExecute` also evicts the pods that use it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelection:
    """The nodes that can reach a device: one of the three members. `node_selector` is a NodeSelector of the API."""

    node_name: str = ""
    node_selector: Object | None = None
    all_nodes: bool = False

    def document(self) -> Object:
        if self.node_selector is not None:
            return {"nodeSelector": self.node_selector}
        return {"allNodes": True} if self.all_nodes else {"nodeName": self.node_name}


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a pool.

    `consumes_counters` has, by counter set of the pool, the amount of each counter that the device takes. `nodes` is
    for pools with `per_device_node_selection`. `extra` holds members of the API's device that have no field here.
    """

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, Amount | Capacity] = field(default_factory=dict)
    consumes_counters: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    allow_multiple_allocations: bool = False
    nodes: NodeSelection | None = None
    binds_to_node: bool = False
    binding_conditions: Sequence[str] = ()
    binding_failure_conditions: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> Object:
        made: Object = {"name": self.name}
        if self.attributes:
            made["attributes"] = {name: self._attribute(name, value) for name, value in self.attributes.items()}
        if self.capacity:
            made["capacity"] = {name: _capacity(value) for name, value in self.capacity.items()}
        if self.consumes_counters:
            made["consumesCounters"] = [
                {"counterSet": name, "counters": _counters(counters)}
                for name, counters in self.consumes_counters.items()
            ]
        if self.taints:
            made["taints"] = [_taint(taint) for taint in self.taints]
        if self.allow_multiple_allocations:
            made["allowMultipleAllocations"] = True
        if self.binds_to_node:
            made["bindsToNode"] = True
        if self.binding_conditions:
            made["bindingConditions"] = list(self.binding_conditions)
            made["bindingFailureConditions"] = list(self.binding_failure_conditions)
        return {**made, **(self.nodes.document() if self.nodes else {}), **self.extra}

    def _attribute(self, name: str, value: Attribute) -> Object:
        try:
            return attribute_document(value)
        except (TypeError, ValueError) as error:
            raise DriverError(f"device {self.name}: attribute {name} is {value!r}: {error}") from None

    @property
    def has_lists(self) -> bool:
        """Whether an attribute has several values."""
        return any(not isinstance(value, str | int) for value in self.attributes.values())


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices that are published together under one name.

    `counters` are the pool's counter sets, which devices consume. The pool is reached from the driver's own node
    unless `nodes` names others or `per_device_node_selection` leaves it to each device. Devices are offered in the
    order in which they are declared, and split over slices at the limits of the API; `slices` declares devices in
    groups instead, each of which starts a slice of its own. A `generation` is needed only by drivers that count the
    generations of a pool themselves.
    """

    name: str
    devices: Sequence[Device] = ()
    counters: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    nodes: NodeSelection | None = None
    per_device_node_selection: bool = False
    slices: Sequence[Sequence[Device]] = ()
    generation: int = 0
    partition_type_attribute: str = ""
    skip_node_operations: Sequence[str] = ()

    def groups(self) -> list[Sequence[Device]]:
        return [group for group in (self.devices, *self.slices) if group]

    def all_devices(self) -> list[Device]:
        return [device for group in self.groups() for device in group]

    def counter_sets(self) -> list[Object]:
        return [{"name": name, "counters": _counters(counters)} for name, counters in self.counters.items()]


def attribute_document(value: Attribute) -> Object:
    if isinstance(value, str | int):
        return {_type_of(value): str(value) if isinstance(value, Version) else value}
    if not isinstance(value, list | tuple):
        raise TypeError("give text, a whole number, a bool, a Version, or a list of one of them")
    values = list(value)
    if not values:
        raise ValueError("a list needs one value at least")
    return {f"{_type_of(values[0])}s": [str(each) if isinstance(each, Version) else each for each in values]}


def _type_of(value: Scalar) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    return "version" if isinstance(value, Version) else "string"


def _capacity(value: Amount | Capacity) -> Object:
    if not isinstance(value, Capacity):
        return {"value": _quantity(value)}
    policy = {} if value.request_policy is None else {"requestPolicy": value.request_policy}
    return {"value": _quantity(value.value), **policy}


def _counters(counters: Mapping[str, Amount]) -> Object:
    return {name: {"value": _quantity(amount)} for name, amount in counters.items()}


def _taint(taint: Taint) -> Object:
    made = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return {name: value for name, value in made.items() if value}


def _quantity(amount: Amount) -> str:
    """Formats a quantity as the API server does, so that stored and declared slices can be compared."""
    return _canonical_text(str(amount))


@lru_cache(maxsize=4096)
def _canonical_text(text: str) -> str:
    return Quantity.parse(text).canonical()
