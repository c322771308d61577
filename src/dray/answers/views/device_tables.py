"""The devices of a cluster as a table and as documents, each with its state and who holds it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from dray.allocation.device_states import STATES, DeviceState
from dray.answers.views.device_facts import capacity, kind, place, table
from dray.answers.views.utilization_text import busy, idle, memory_used
from dray.api.objects import Object


def lines(states: list[DeviceState], *, wide: bool = False) -> list[str]:
    """Pools are shown where they are not those of nodes."""
    pooled = wide or any(each.place[1] != each.node for each in states)
    columns = ("Node", *(("Pool",) if pooled else ()), "Driver", "Device", "Kind", "State", "Claim", "Pods")
    columns += ("Busy", "Memory used", "PCIe root", "NUMA", "Capacity") if wide else ()
    return table(columns, [_row(each, pooled, wide) for each in states])


def _row(state: DeviceState, pooled: bool, wide: bool) -> tuple[Any, ...]:
    driver, pool, device = state.place
    claims = ", ".join(each.text for each in state.holders) or "-"
    pods = ", ".join(sorted({pod for each in state.holders for pod in each.pods})) or "-"
    row = (state.node or "-", *((pool,) if pooled else ()), driver, device, kind(state.document))
    use = busy(state.utilization), memory_used(state.utilization)
    further = (*use, *place(state.document), capacity(state.document)) if wide else ()
    return (*row, described(state), claims, pods, *further)


def described(state: DeviceState) -> str:
    """The state of a device, how much of it is in use if it is shared, its taints, and for how long it is idle."""
    text = state.state
    if used := state.used():
        text += ": " + ", ".join(f"{amount} of {total} {name}" for name, (amount, total) in used.items())
    if state.taints:
        taints = ", ".join(f"{each['key']}:{each['effect']}" for each in state.taints)
        text += f" ({taints})" if text.startswith("tainted") else f", tainted ({taints})"
    now = datetime.now(UTC) if state.seen_at is None else datetime.fromtimestamp(state.seen_at, UTC)
    if since := idle(state.utilization, now):
        text += f", idle for {since}"
    return text


def summary(states: list[DeviceState]) -> str:
    counts = Counter(each.state for each in states)
    parts = [f"{counts[each]} {each}" for each in STATES if counts[each]]
    return f"{len(states)} devices{': ' if parts else ''}{', '.join(parts)}"


def device_document(state: DeviceState) -> Object:
    driver, pool, device = state.place
    return {
        "node": state.node,
        "driver": driver,
        "pool": pool,
        "device": device,
        "kind": kind(state.document),
        "state": state.state,
        "taints": list(state.taints),
        "utilization": state.utilization.document() if state.utilization is not None else {},
        "claims": [
            {"claim": each.claim, "pods": list(each.pods), "consumedCapacity": dict(each.share)}
            for each in state.holders
        ],
        "attributes": state.document.get("attributes") or {},
        "capacity": state.document.get("capacity") or {},
    }
