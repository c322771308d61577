"""Nodes that only a manifest speaks for: there is no agent that says what the machine has and how it is."""

from __future__ import annotations

from typing import Any, Final

Object = dict[str, Any]

CAPACITY: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}
"""Of a node whose manifest does not say."""


def status(node: Object) -> Object:
    """What the manifest says, with what it leaves out: plenty of room, and ready.

    Times of heartbeats are left out. Nobody sends any, so a node that had one would soon count as lost.
    """
    written = node.get("status")
    given: Object = dict(written) if isinstance(written, dict) else {}
    capacity = given.get("capacity") or given.get("allocatable") or dict(CAPACITY)
    conditions = [_without_heartbeat(each) for each in given.get("conditions") or ()]
    if not any(isinstance(each, dict) and each.get("type") == "Ready" for each in conditions):
        conditions.append(
            {"type": "Ready", "status": "True", "reason": "Manifest", "message": "as its manifest has it"}
        )
    return {
        **given,
        "capacity": capacity,
        "allocatable": given.get("allocatable") or capacity,
        "conditions": conditions,
    }


def _without_heartbeat(condition: Any) -> Any:
    if not isinstance(condition, dict):
        return condition
    return {name: value for name, value in condition.items() if name != "lastHeartbeatTime"}
