"""ShareSizes: the capacity that a request for a share of a device takes at most, before a device is chosen.

A request without an amount takes the default of the device's request policy, or the whole capacity. An amount is
rounded up by the policy. The largest result over all devices that class and request select counts, so that quota is
not exceeded whichever device is chosen.
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
        """Sizes by the selectors and the requested capacity."""
        self._changed: Callable[[], None] = lambda: None

    def on_change(self, changed: Callable[[], None]) -> None:
        """Calls a function when sizes that were returned may have changed."""
        self._changed = changed

    def outdate(self) -> None:
        """Drops all sizes, after slices or classes changed."""
        if self._known:
            self._known.clear()
            self._changed()

    def of(self, request: Object) -> dict[str, int]:
        """The size of a request by name of the capacity; empty if it selects no device that can be shared."""
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
        fractional, largest = self._inventory.gates["DRAFractionalCapacityRange"], dict[str, int]()
        for device in self._selected(expressions):
            try:
                amounts = consumption(device, wanted, fractional=fractional) or {}
            except (CapacityError, QuantityError):
                continue
            for name, amount in amounts.items():
                largest[name] = max(largest.get(name, 0), amount.value())
        return largest

    def _selected(self, expressions: tuple[str, ...]) -> Iterator[Device]:
        """The devices that all expressions select and that can be shared."""
        selectors = self._inventory.selectors
        was, selectors.work = selectors.work, Work()
        try:
            for slice_ in self._inventory.newest_slices():
                bits = (1 << len(slice_.devices)) - 1
                for expression in expressions:
                    bits &= slice_.column(expression, selectors).selected
                yield from (
                    device
                    for position, device in enumerate(slice_.devices)
                    if bits >> position & 1 and device.shareable
                )
        finally:
            selectors.work = was


def selectors_of(spec: Object) -> tuple[str, ...]:
    """The CEL expressions of a class or request; a selector of another type counts as `false`."""
    listed = mappings(spec.get("selectors"))
    return tuple(str(mapping(selector.get("cel")).get("expression") or "false") for selector in listed)
