"""Health of a node: taints that follow from conditions, conditions turned Unknown, and heartbeats.

Heartbeats are timed by this process, without the wall clock: that of a node may be wrong, and any may be set.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, conditions_of, spec_of
from dray.client.cache import Cache, Change
from dray.client.clock import TimeOfDay, steady_seconds

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")

Taint = tuple[str, str]
"""(key, effect) of a taint."""

_MANAGED: Final = {
    *((key, "NoSchedule") for key in (NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values())),
    *((key, "NoExecute") for key in (NOT_READY, UNREACHABLE)),
}

LEASES: Final = "kube-node-lease"


def statuses(node: Object) -> dict[str, str]:
    """Returns the status of each condition, by condition type."""
    return {condition.get("type", ""): condition.get("status", "") for condition in conditions_of(node)}


def silenced(node: Object, now: str) -> list[Object]:
    """Returns the conditions to set on a silent node; empty if they are set already."""
    present = {condition.get("type"): condition for condition in conditions_of(node)}
    changed = []
    for kind in _REPORTED:
        before = present.get(kind)
        if before is None:
            changed.append(
                {
                    "type": kind,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": node["metadata"].get("creationTimestamp") or now,
                    "lastTransitionTime": now,
                }
            )
        elif before.get("status") != "Unknown":
            changed.append(
                {
                    **before,
                    "status": "Unknown",
                    "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastTransitionTime": now,
                }
            )
    return changed


def taints(node: Object, now: str) -> list[Object] | None:
    """Returns the taints that the node must get; None if it has them. Taints with other keys stay."""
    conditions = statuses(node)
    managed = _MANAGED
    if "Ready" not in conditions:
        # Nobody has said yet how it is: what was decided when it was made stands.
        managed = {taint for taint in managed if taint[0] not in (NOT_READY, UNREACHABLE)}
    wanted = _wanted(node, conditions)
    present = spec_of(node).get("taints") or []
    kept = [taint for taint in present if _name(taint) not in managed or _name(taint) in wanted]
    missing = wanted - {_name(taint) for taint in kept}
    if len(kept) == len(present) and not missing:
        return None
    return kept + [{"key": key, "effect": effect, "timeAdded": now} for key, effect in sorted(missing)]


def _wanted(node: Object, conditions: dict[str, str]) -> set[Taint]:
    wanted = {(key, "NoSchedule") for kind, key in _PRESSURES.items() if conditions.get(kind) == "True"}
    key = {"False": NOT_READY, "Unknown": UNREACHABLE}.get(conditions.get("Ready", ""))
    if key is not None:
        wanted |= {(key, "NoSchedule"), (key, "NoExecute")}
    if spec_of(node).get("unschedulable"):
        wanted.add((UNSCHEDULABLE, "NoSchedule"))
    return wanted


def _name(taint: Object) -> Taint:
    return taint.get("key", ""), taint.get("effect", "")


class Heartbeats:
    """Tracks heartbeats. `leases` is the cache of all Leases."""

    def __init__(self, leases: Cache, time: TimeOfDay) -> None:
        self._leases = leases
        self._now = steady_seconds(time)
        self._heard: dict[str, float] = {}

    def lease_changed(self, change: Change) -> bool:
        """Whether it is the first one of a node."""
        namespace, name = change.key
        if namespace != LEASES or change.type == "DELETED":
            return False
        if change.previous is None or renewed(change.previous) != renewed(change.object):
            self._heard[name] = self._now()
        return change.previous is None

    def node_changed(self, change: Change) -> None:
        name = change.key[1]
        if change.type == "DELETED":
            self._heard.pop(name, None)
        elif change.previous is None or _beats(change.previous) != _beats(change.object):
            self._heard[name] = self._now()

    def heard(self, name: str) -> None:
        self._heard[name] = self._now()

    def lease(self, name: str) -> Object | None:
        return self._leases.get(name, namespace=LEASES)

    def has_pulse(self, node: Object) -> bool:
        """Whether there is somebody who sends heartbeats, or was."""
        return self.lease(node["metadata"]["name"]) is not None or any(_beats(node).values())

    def silence(self, name: str) -> float:
        """Seconds. A node that was not known counts from now on."""
        now = self._now()
        return now - self._heard.setdefault(name, now)


def renewed(lease: Object) -> str:
    return str(spec_of(lease).get("renewTime") or "")


def _beats(node: Object) -> dict[str, str]:
    return {condition.get("type", ""): condition.get("lastHeartbeatTime") or "" for condition in conditions_of(node)}
