"""ShareSizes: how much of the capacity of a device a request takes at most, before it is known which device it gets.

A request that names no capacity takes what the policy of the device has as its default, or else all of it; one that
names some is rounded up by the policy. Of the devices that class and request select the largest counts, so that a quota
holds whichever it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from dray.allocation import Inventory, Work
from dray.allocation.capacity import CapacityError, consumption
from dray.allocation.devices import Device
from dray.api.objects import Object, mapping, mappings
from dray.api.quantity import Quantity, QuantityError

_MOST_KINDS: Final = 1024


class ShareSizes:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._known: dict[object, dict[str, int]] = {}
        """By class, selectors and capacity of a request."""
        self.changed: Callable[[], None] = lambda: None
        """Called when what was given may be otherwise now."""

    def outdate(self) -> None:
        """Slices or classes are other than before."""
        if self._known:
            self._known.clear()
            self.changed()

    def of(self, request: Object) -> dict[str, int]:
        """By the name of the capacity; empty where no device that can be shared is selected."""
        device_class = self._inventory.classes.get(str(request.get("deviceClassName")))
        if device_class is None:
            return {}
        asked = mapping(mapping(request.get("capacity")).get("requests"))
        expressions = (*selectors_of(mapping(device_class.get("spec"))), *selectors_of(request))
        key = expressions, tuple(sorted((name, str(amount)) for name, amount in asked.items()))
        if key not in self._known:
            if len(self._known) >= _MOST_KINDS:
                self._known.clear()
            self._known[key] = self._largest(expressions, asked)
        return self._known[key]

    def _largest(self, expressions: tuple[str, ...], asked: Object) -> dict[str, int]:
        try:
            wanted = {name: Quantity.parse(str(amount)) for name, amount in asked.items()}
        except QuantityError:
            return {}
        fractional, found = self._inventory.gates["DRAFractionalCapacityRange"], dict[str, int]()
        for device in self._selected(expressions):
            try:
                amounts = consumption(device, wanted, fractional=fractional) or {}
            except (CapacityError, QuantityError):
                continue
            for name, amount in amounts.items():
                found[name] = max(found.get(name, 0), amount.value())
        return found

    def _selected(self, expressions: tuple[str, ...]) -> Iterator[Device]:
        """The devices that can be shared."""
        selectors = self._inventory.selectors
        was, selectors.work = selectors.work, Work()
        try:
            for each in self._inventory.newest_slices():
                bits = (1 << len(each.devices)) - 1
                for expression in expressions:
                    bits &= each.column(expression, selectors).selected
                yield from (one for at, one in enumerate(each.devices) if bits >> at & 1 and one.shareable)
        finally:
            selectors.work = was


def selectors_of(spec: Object) -> tuple[str, ...]:
    """The expressions of a class or request; one that is none selects nothing, so that they do not either."""
    listed = mappings(spec.get("selectors"))
    return tuple(str(mapping(each.get("cel")).get("expression") or "false") for each in listed)
