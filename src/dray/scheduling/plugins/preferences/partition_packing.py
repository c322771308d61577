"""Partitions for `pack`: which nodes have a partition for a request that wastes little.

The best node has the GPU on which most fits after the partition, compared with before (`dray.allocation.partitions`).
Among equal nodes, the one with the fewest free GPUs is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.allocation import Inventory, WorkExhausted
from dray.allocation.partitions import partitioned_devices, preferences
from dray.allocation.views import View
from dray.api.objects import Object, spec_of

_LOST: Final = 500_000
"""The points of a partition with which all room of a GPU is lost."""
_WHOLE_GPU: Final = 1


def partition_waste(inventory: Inventory, view: View, request: Object) -> int | None:
    """Points to subtract from the score of a node where the request takes partitions; None if it takes none there."""
    if not view.counter_sets:
        return None
    bits = suitable(inventory, view, request)
    if not any(bits >> rank & 1 for rank in view.counter_sets):
        return None
    found = sorted(preference for rank, preference in preferences(view).items() if bits >> rank & 1)
    best = found[: request.get("count") or 1]
    return sum(int(_LOST * lost) for lost in best) + _WHOLE_GPU * whole(view)


def whole(view: View) -> int:
    """The number of partitioned devices of which nothing is in use."""
    return sum(device.table.free(device.left) == 1 for device in partitioned_devices(view))


def free_parts(view: View) -> tuple[int, float]:
    """The number of partitioned devices of a view, and how many of them are free, in parts added up."""
    devices = partitioned_devices(view)
    return len(devices), sum(device.table.free(device.left) for device in devices)


def suitable(inventory: Inventory, view: View, request: Object) -> int:
    """The devices that no claim holds and that the class and the selectors of the request select."""
    device_class = inventory.classes.get(request.get("deviceClassName") or "")
    bits = view.every & ~view.held
    selectors: Sequence[Object] = (*_selectors(spec_of(device_class or {})), *_selectors(request))
    try:
        for selector in selectors:
            if cel := selector.get("cel"):
                bits &= view.column(cel["expression"], inventory.selectors).selected
    except WorkExhausted:
        return 0
    return bits


def _selectors(spec: Object) -> Sequence[Object]:
    return spec.get("selectors") or ()
