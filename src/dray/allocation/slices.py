"""ResourceSlices, compiled once: their devices in order, their counters, and the nodes they are for.

A slice also keeps what is known about its devices in the form the search wants, as bitsets by position: the verdict
of each selector asked so far, which devices are held exclusively, and which are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dray.allocation import node_selectors
from dray.allocation.devices import Device, quantity
from dray.allocation.selectors import MOST_COLUMNS, Column, Selectors
from dray.api.caches import BoundedDict
from dray.api.gates import FeatureGates
from dray.api.objects import Object

PoolKey = tuple[str, str]
"""Driver, pool name."""


class Slice:
    def __init__(self, document: Object, rules: Iterable[Object] = ()) -> None:
        spec = document["spec"]
        self.document = document
        self.name: str = document["metadata"]["name"]
        self.driver: str = spec["driver"]
        self.pool: str = spec["pool"]["name"]
        self.generation: int = spec["pool"].get("generation") or 0
        self.count: int = spec["pool"].get("resourceSliceCount") or 0
        self.node_name: str = spec.get("nodeName") or ""
        self.all_nodes = bool(spec.get("allNodes"))
        self.node_selector: Object | None = spec.get("nodeSelector")
        self.per_device: bool | None = spec.get("perDeviceNodeSelection")
        self.skip_node_operations: tuple[str, ...] = tuple(spec.get("skipNodeOperations") or ())
        self.devices = [Device(self.driver, self.pool, device, rules) for device in spec.get("devices") or ()]
        self.counter_sets = {
            counters["name"]: {name: quantity(counter["value"]).nanos for name, counter in counters["counters"].items()}
            for counters in spec.get("sharedCounters") or ()
        }
        self.set_names = [counters["name"] for counters in spec.get("sharedCounters") or ()]
        self.has_groups = any(consumed.groups for device in self.devices for consumed in device.consumes)
        self.has_conditions = any(device.spec.get("bindingConditions") is not None for device in self.devices)
        self.held = 0
        self.shared = 0
        self._columns: BoundedDict[str, Column] = BoundedDict(MOST_COLUMNS)

    @property
    def key(self) -> PoolKey:
        return self.driver, self.pool

    def usable(self, gates: FeatureGates) -> bool:
        """Returns False if the slice uses a feature that is off."""
        if not gates["DRAPartitionableDevices"] and (self.per_device is not None or self.set_names):
            return False
        return gates["DRADeviceCompatibilityGroups"] or not self.has_groups

    def targets(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the slice offers anything to the node; raises NodeSelectorError."""
        if self.node_name or self.all_nodes or self.node_selector is not None:
            return _targets(self.node_name, self.all_nodes, self.node_selector, name, labels)
        return bool(self.per_device) and any(device_targets(device, name, labels) for device in self.devices)

    def column(self, expression: str, selectors: Selectors) -> Column:
        column = self._columns.get(expression)
        if column is None:
            column = self._columns[expression] = selectors.column(expression, self.devices)
        return column

    def known_columns(self) -> Object:
        """Returns the cached selector columns as plain data."""
        return {
            expression: {"selected": hex(column.selected), "faults": [[*fault] for fault in column.faults.items()]}
            for expression, column in self._columns.items()
        }

    def learn(self, columns: Object) -> None:
        for expression, each in columns.items():
            if expression not in self._columns:
                self._columns[expression] = Column(int(each["selected"], 16), dict(each["faults"]))


def device_targets(device: Device, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a device of a slice with per-device node selection is for the node."""
    spec = device.spec
    return _targets(spec.get("nodeName") or "", bool(spec.get("allNodes")), spec.get("nodeSelector"), name, labels)


def _targets(node_name: str, all_nodes: bool, selector: Object | None, name: str, labels: Mapping[str, str]) -> bool:
    if node_name:
        return node_name == name
    return all_nodes or (selector is not None and node_selectors.matches(selector, name, labels))
