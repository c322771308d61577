"""The status of a StatefulSet: how many pods there are, are ready, and have which revision."""

from __future__ import annotations

from collections import Counter

from dray.api.objects import Object, is_deleting, status_of
from dray.controllers.stateful_sets.recreation import conditions
from dray.controllers.stateful_sets.replicas import Replicas, is_running_and_ready, revision_of

_ALWAYS = ("replicas", "availableReplicas")
_COUNTED = (*_ALWAYS, "readyReplicas", "currentReplicas", "updatedReplicas")


def status(replicas: Replicas) -> Object:
    counts: Counter[str] = Counter()
    for pod in replicas.pods.values():
        counts["replicas"] += 1
        counts["readyReplicas"] += is_running_and_ready(pod)
        counts["availableReplicas"] += replicas.is_available(pod)
        if not is_deleting(pod):
            counts["currentReplicas"] += revision_of(pod) == replicas.current
            counts["updatedReplicas"] += revision_of(pod) == replicas.update
    current = replicas.current
    members = ("replicas", "readyReplicas", "updatedReplicas")
    is_complete = all(counts[name] == len(replicas.wanted) for name in members)
    if is_complete and (replicas.rolling is not None or replicas.recreates):
        current, counts["currentReplicas"] = replicas.update, counts["updatedReplicas"]
    told = conditions(replicas, is_complete=is_complete)
    kept = {name: value for name, value in status_of(replicas.stateful_set).items() if name not in _COUNTED}
    return {
        **kept,
        **{name: counts[name] for name in _COUNTED if name in _ALWAYS or counts[name]},
        "observedGeneration": replicas.stateful_set["metadata"].get("generation", 0),
        "currentRevision": current,
        "updateRevision": replicas.update,
        "collisionCount": int(kept.get("collisionCount") or 0),
        **({"conditions": told} if told else {}),
    }
