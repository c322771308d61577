"""The next step of a rolling update of a DaemonSet.

Without surge old pods are deleted as long as no more than `maxUnavailable` nodes are without an available one; with
surge new pods are made beside old ones, on `maxSurge` nodes at a time, and the old one goes once the new is available.
"""

from __future__ import annotations

from dray.api.objects import Object
from dray.controllers.daemon_sets.daemons import Daemons
from dray.controllers.daemon_sets.plan import Plan


def step(daemons: Daemons) -> Plan:
    if daemons.daemon_set["spec"]["updateStrategy"].get("type") != "RollingUpdate":
        return Plan()
    return _surge(daemons) if daemons.surge else _replace(daemons)


def _pair(daemons: Daemons, node: str) -> tuple[Object | None, Object | None] | None:
    """Returns the new and the old pod of a node; None if there are too many, which the plan fixes first."""
    staying = daemons.staying(node)
    new = [pod for pod in staying if daemons.is_new(pod)]
    old = [pod for pod in staying if not daemons.is_new(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return (new[0] if new else None), (old[0] if old else None)


def _replace(daemons: Daemons) -> Plan:
    unavailable, at_once, later = 0, [], []
    for node in daemons.pods:
        pair = _pair(daemons, node)
        if pair is None or (pair[0] is None) == (pair[1] is None):
            unavailable += 1
            continue
        new, old = pair
        if new is not None:
            unavailable += not daemons.is_available(new)
        elif old is not None and not daemons.is_available(old):
            at_once.append(old)
            unavailable += 1
        elif old is not None:
            later.append(old)
    return Plan(delete=at_once + later[: max(0, daemons.max_unavailable - unavailable)])


def _surge(daemons: Daemons) -> Plan:
    surging, found = 0, Plan()
    later: list[str] = []
    for node in daemons.pods:
        pair = _pair(daemons, node)
        if pair is None:
            surging += 1
            continue
        new, old = pair
        if old is None or node not in daemons.placements or not daemons.placements[node].runs:
            continue
        if new is None:
            (later if daemons.is_available(old) else found.create).append(node)
        elif daemons.is_available(new):
            found.delete.append(old)
        else:
            surging += 1
    found.create += later[: max(0, daemons.surge - surging)]
    return found
