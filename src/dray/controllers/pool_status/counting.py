"""Counts the devices of pools: total, allocated, unavailable and available.

Only the newest generation of a pool counts. A pool of which some slices are missing has no numbers but an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from dray.allocation.slices import PoolKey, Slice
from dray.allocation.usage import Usage
from dray.api.objects import Object
from dray.client.clock import timestamp
from dray.controllers.pool_status import views
from dray.controllers.pool_status.views import ViewError

INCOMPLETE: Final = "PoolIncomplete:"
_LIMIT: Final = 100
_LONGEST: Final = 256


def newest(documents: Iterable[Object]) -> dict[PoolKey, list[Object]]:
    """Returns the slices of each pool's newest generation, by pool name."""
    pools: dict[PoolKey, list[Object]] = {}
    for document in documents:
        spec = document["spec"]
        known = pools.setdefault((spec["driver"], spec["pool"]["name"]), [])
        if known and _generation(document) > _generation(known[0]):
            known.clear()
        if not known or _generation(document) == _generation(known[0]):
            known.append(document)
    return {key: pools[key] for key in sorted(pools, key=lambda key: [part.encode() for part in key])}


def limit_of(request: Object) -> int:
    return request["spec"].get("limit") or _LIMIT


def pool_status(slices: Sequence[Slice], usage: Usage, default_attribute: str) -> Object:
    """Builds the entry of one pool; `slices` are all of its newest generation, with their taints."""
    first = slices[0]
    status: Object = {"driver": first.driver, "poolName": first.pool, "generation": first.generation}
    nodes = {slice_.node_name for slice_ in slices}
    if len(nodes) == 1 and first.node_name:
        status["nodeName"] = first.node_name
    if len(slices) < first.count:
        error = (
            f"{INCOMPLETE} pool {first.driver}/{first.pool} is incomplete: "
            f"observed {len(slices)}/{first.count} slices at generation {first.generation}"
        )
        return {**status, "validationError": _shortened(error)}
    total = sum(len(slice_.devices) for slice_ in slices)
    unavailable = sum(bool(device.taints) for slice_ in slices for device in slice_.devices)
    allocated = sum(device[:2] == first.key for device in usage.devices)
    return {
        **status,
        "resourceSliceCount": len(slices),
        "totalDevices": total,
        "allocatedDevices": allocated,
        "unavailableDevices": unavailable,
        "availableDevices": max(0, total - allocated - unavailable),
        **_views(slices, usage, default_attribute),
    }


def _views(slices: Sequence[Slice], usage: Usage, default_attribute: str) -> Object:
    """Returns the summaries that could be made. If one fails, adds the first problem and drops `partitionSummary`."""
    found: Object = {}
    problems = []
    makers: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("partitionSummary", lambda: views.partitions(slices, usage, default_attribute)),
        ("shareableSummary", lambda: views.shareable(slices, usage)),
    )
    for member, make in makers:
        try:
            view = make()
        except ViewError as error:
            problems.append(str(error))
        else:
            if view:
                found[member] = view
    if problems:
        found.pop("partitionSummary", None)
        found["validationError"] = _shortened(problems[0])
    return found


def complete(pools: Sequence[Object], count: int, now: datetime) -> Object:
    """Builds the answer; `count` is the number of pools before the limit."""
    faulty = sum("validationError" in pool for pool in pools)
    message = f"Calculated status for {len(pools)} pools" + (f" ({faulty} incomplete)" if faulty else "")
    return _answer("Complete", "CalculationComplete", message, count, now, pools=list(pools))


def failed(message: str, now: datetime) -> Object:
    return _answer("Failed", "CalculationFailed", message, 0, now)


def _answer(type_: str, reason: str, message: str, count: int, now: datetime, **rest: Any) -> Object:
    condition = {"type": type_, "status": "True", "reason": reason, "message": message}
    return {"poolCount": count, "conditions": [{**condition, "lastTransitionTime": timestamp(now)}], **rest}


def is_incomplete(pool: Object) -> bool:
    return str(pool.get("validationError", "")).startswith(INCOMPLETE)


def _generation(document: Object) -> int:
    return document["spec"]["pool"].get("generation") or 0


def _shortened(text: str) -> str:
    return text.encode()[:_LONGEST].decode(errors="ignore")
