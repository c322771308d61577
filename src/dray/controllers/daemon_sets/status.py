"""The status of a DaemonSet: how many nodes are to have a pod, and how many have one."""

from __future__ import annotations

from collections import Counter

from dray.api.objects import Object, is_true, status_of
from dray.controllers.daemon_sets.daemons import Daemons

_ALWAYS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_COUNTED = (*_ALWAYS, "updatedNumberScheduled", "numberAvailable", "numberUnavailable")


def status(daemons: Daemons) -> Object:
    counts: Counter[str] = Counter()
    for node, place in daemons.placements.items():
        pods = daemons.pods.get(node)
        if not place.runs:
            counts["numberMisscheduled"] += bool(pods)
            continue
        counts["desiredNumberScheduled"] += 1
        if pods:
            oldest = pods[0]
            counts["currentNumberScheduled"] += 1
            counts["numberReady"] += is_true(oldest, "Ready")
            counts["numberAvailable"] += daemons.is_available(oldest)
            counts["updatedNumberScheduled"] += daemons.is_new(oldest)
    counts["numberUnavailable"] = counts["desiredNumberScheduled"] - counts["numberAvailable"]
    kept = {name: value for name, value in status_of(daemons.daemon_set).items() if name not in _COUNTED}
    shown = {name: counts[name] for name in _COUNTED if name in _ALWAYS or counts[name]}
    return {**kept, **shown, "observedGeneration": daemons.daemon_set["metadata"].get("generation", 0)}
