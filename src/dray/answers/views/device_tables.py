"""The devices of a cluster as a table and as documents, each with its state and its claims."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from dray.allocation.device_states import STATES, DeviceState
from dray.answers.views.device_facts import capacity, kind, place, table
from dray.answers.views.utilization_text import busy, idle, memory_used
from dray.api.objects import Object


def lines(states: list[DeviceState], *, wide: bool = False) -> list[str]:
    """Returns a table of devices; it has a column for pools if a pool is not named after its node."""
    pooled = wide or any(state.place[1] != state.node for state in states)
    columns = ("Node", *(("Pool",) if pooled else ()), "Driver", "Device", "Kind", "State", "Claim", "Pods")
    columns += ("Busy", "Memory used", "PCIe root", "NUMA", "Capacity") if wide else ()
    return table(columns, [_row(state, pooled, wide) for state in states])


def _row(state: DeviceState, pooled: bool, wide: bool) -> tuple[Any, ...]:
    driver, pool, device = state.place
    claims = ", ".join(holder.text for holder in state.holders) or "-"
    pods = ", ".join(sorted({pod for holder in state.holders for pod in holder.pods})) or "-"
    row = (state.node or "-", *((pool,) if pooled else ()), driver, device, kind(state.document))
    use = busy(state.utilization), memory_used(state.utilization)
    further = (*use, *place(state.document), capacity(state.document)) if wide else ()
    return (*row, state_text(state), claims, pods, *further)


def state_text(state: DeviceState) -> str:
    """Returns the state of a device, its usage if it is shared, its taints, and for how long it is idle."""
    text = state.state
    if used := state.used():
        text += ": " + ", ".join(f"{amount} of {total} {name}" for name, (amount, total) in used.items())
    if state.taints:
        taints = ", ".join(f"{taint['key']}:{taint['effect']}" for taint in state.taints)
        text += f" ({taints})" if text.startswith("tainted") else f", tainted ({taints})"
    now = datetime.now(UTC) if state.seen_at is None else datetime.fromtimestamp(state.seen_at, UTC)
    if since := idle(state.utilization, now):
        text += f", idle for {since}"
    return text


def summary(states: list[DeviceState]) -> str:
    """Returns how many devices are in which state."""
    counts = Counter(device.state for device in states)
    parts = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    return f"{len(states)} devices{': ' if parts else ''}{', '.join(parts)}"


def holder_documents(state: DeviceState) -> list[Object]:
    """Returns the claims that have the device, each with its pods and consumed capacity."""
    return [
        {"claim": holder.claim, "pods": list(holder.pods), "consumedCapacity": dict(holder.share)}
        for holder in state.holders
    ]


def device_document(state: DeviceState) -> Object:
    """Returns a device for `-o json`."""
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
        "claims": holder_documents(state),
        "attributes": state.document.get("attributes") or {},
        "capacity": state.document.get("capacity") or {},
    }
