"""Heartbeats of nodes, timed by the clock of this process: that of a node may be wrong."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from dray.api.objects import Object, conditions_of, spec_of
from dray.client.cache import Cache, Change
from dray.client.clock import TimeOfDay

LEASES: Final = "kube-node-lease"


class Heartbeats:
    """`leases` is the cache of all Leases."""

    def __init__(self, leases: Cache, time: TimeOfDay) -> None:
        self._leases = leases
        self._time = time
        self._heard: dict[str, datetime] = {}

    def lease_changed(self, change: Change) -> bool:
        """Whether it is the first one of a node."""
        namespace, name = change.key
        if namespace != LEASES or change.type == "DELETED":
            return False
        if change.previous is None or renewed(change.previous) != renewed(change.object):
            self._heard[name] = self._time.now()
        return change.previous is None

    def node_changed(self, change: Change) -> None:
        name = change.key[1]
        if change.type == "DELETED":
            self._heard.pop(name, None)
        elif change.previous is None or _beats(change.previous) != _beats(change.object):
            self._heard[name] = self._time.now()

    def heard(self, name: str) -> None:
        self._heard[name] = self._time.now()

    def lease(self, name: str) -> Object | None:
        return self._leases.get(name, namespace=LEASES)

    def has_pulse(self, node: Object) -> bool:
        """Whether there is somebody who sends heartbeats, or was."""
        return self.lease(node["metadata"]["name"]) is not None or any(_beats(node).values())

    def silence(self, name: str) -> float:
        """Seconds. A node that was not known counts from now on."""
        now = self._time.now()
        return (now - self._heard.setdefault(name, now)).total_seconds()


def renewed(lease: Object) -> str:
    return str(spec_of(lease).get("renewTime") or "")


def _beats(node: Object) -> dict[str, str]:
    return {condition.get("type", ""): condition.get("lastHeartbeatTime") or "" for condition in conditions_of(node)}
