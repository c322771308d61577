"""Device values for `pack`: a pod that can use several models of devices gets those with the least memory.

Pods that need much memory have fewer nodes to go to, and devices with more memory cost more. Devices that do not
publish their memory, and partitions, have no value here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from dray.allocation import Inventory
from dray.allocation.views import View
from dray.api.objects import Object
from dray.scheduling.plugins.preferences.partition_packing import suitable

_MEMORY: Final = "memory"
_GIBI_NANOS: Final = 2**30 * 10**9

# A view lives until a slice changes, and is asked for every pod that could be placed on the node.
_known: WeakKeyDictionary[View, Mapping[int, float]] = WeakKeyDictionary()


def has_memories(view: View) -> bool:
    """Whether a device of the view publishes its memory."""
    return bool(_memories(view))


def memory_taken(inventory: Inventory, view: View, request: Object, part: float) -> float:
    """The memory in GiB of the smallest devices that suit the request, on average; `part` of it, from 0 to 1."""
    memories = _memories(view)
    if not memories:
        return 0.0
    bits = suitable(inventory, view, request)
    found = sorted(memory for rank, memory in memories.items() if bits >> rank & 1)[: request.get("count") or 1]
    return part * sum(found) / len(found) if found else 0.0


def _memories(view: View) -> Mapping[int, float]:
    """GiB by rank."""
    known = _known.get(view)
    if known is None:
        known = _known[view] = {
            rank: device.capacity[_MEMORY].value.nanos / _GIBI_NANOS
            for rank, device in enumerate(view.devices)
            if _MEMORY in device.capacity and rank not in view.counter_sets
        }
    return known
