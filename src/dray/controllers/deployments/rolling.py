"""Sizes of a Deployment's ReplicaSets: while they take turns, and when the Deployment is scaled meanwhile.

Never are there more pods than `replicas` and `maxSurge` together, nor fewer available than `replicas` without
`maxUnavailable`. Where both come to nothing, one pod may be unavailable, as otherwise nothing could ever change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dray.api.int_or_percent import scaled
from dray.api.objects import Object, annotations_of, int64, spec_of, status_of, uid_of
from dray.controllers.deployments.revisions import DESIRED, MOST, by_age

Sizes = list[tuple[Object, int]]
"""ReplicaSets with their new number of replicas."""


@dataclass(frozen=True, slots=True)
class Bounds:
    replicas: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, deployment: Object) -> Bounds:
        replicas = size(deployment)
        if not is_rolling(deployment):
            return cls(replicas, 0, 0)
        given = spec_of(deployment).get("strategy", {}).get("rollingUpdate") or {}
        surge = scaled(given.get("maxSurge") or 0, replicas)
        unavailable = scaled(given.get("maxUnavailable") or 0, replicas, up=False)
        if not surge and not unavailable:
            unavailable = 1
        return cls(replicas, surge, min(unavailable, replicas))

    @property
    def most(self) -> int:
        return self.replicas + self.surge

    @property
    def fewest_available(self) -> int:
        return self.replicas - self.unavailable


def is_rolling(deployment: Object) -> bool:
    return (spec_of(deployment).get("strategy") or {}).get("type") == "RollingUpdate"


def size(obj: Object) -> int:
    """Returns the wanted replicas of a Deployment or ReplicaSet."""
    replicas = spec_of(obj).get("replicas")
    return 1 if replicas is None else int(replicas)


def counted(replica_sets: Iterable[Object], member: str) -> int:
    return sum(int(status_of(replica_set).get(member) or 0) for replica_set in replica_sets)


def active(replica_sets: Iterable[Object]) -> list[Object]:
    return [replica_set for replica_set in replica_sets if size(replica_set) > 0]


def annotated(replica_set: Object, name: str) -> int | None:
    return int64(annotations_of(replica_set).get(name, ""))


def is_scaled(deployment: Object, replica_sets: Iterable[Object]) -> bool:
    """Whether the Deployment has been given another size since its ReplicaSets got theirs."""
    found = (annotated(replica_set, DESIRED) for replica_set in active(replica_sets))
    return any(desired is not None and desired != size(deployment) for desired in found)


def new_size(deployment: Object, replica_sets: Iterable[Object], new: Object | None) -> int:
    """Returns the size of the newest ReplicaSet now; `new` is None before it is created."""
    bounds, present = Bounds.of(deployment), size(new) if new is not None else 0
    if not is_rolling(deployment) or present > bounds.replicas:
        return bounds.replicas
    room = bounds.most - sum(map(size, replica_sets))
    return present + max(0, min(room, bounds.replicas - present))


def old_sizes(deployment: Object, old: Sequence[Object], new: Object) -> Sizes:
    """Returns smaller sizes for old ReplicaSets: unhealthy pods go first, then pods within `maxUnavailable`."""
    bounds, everything = Bounds.of(deployment), [*old, new]
    unavailable_new = size(new) - counted([new], "availableReplicas")
    removable = sum(map(size, everything)) - bounds.fewest_available - unavailable_new
    if removable <= 0 or not active(old):
        return []
    sizes = {uid_of(replica_set): size(replica_set) for replica_set in old}
    for replica_set in by_age(active(old)):
        unhealthy = max(0, size(replica_set) - counted([replica_set], "availableReplicas"))
        taken = min(removable, unhealthy)
        sizes[uid_of(replica_set)] -= taken
        removable -= taken
    spare = counted(everything, "availableReplicas") - bounds.fewest_available
    for replica_set in by_age(active(old)):
        taken = max(0, min(spare, sizes[uid_of(replica_set)]))
        sizes[uid_of(replica_set)] -= taken
        spare -= taken
    return [
        (replica_set, sizes[uid_of(replica_set)])
        for replica_set in old
        if sizes[uid_of(replica_set)] != size(replica_set)
    ]


def scaled_sizes(deployment: Object, old: Sequence[Object], new: Object | None) -> Sizes:
    """The sizes after the Deployment itself was given another one.

    If pods of several revisions run, each revision gets its share; those that are left over go to the largest.
    """
    everything = [*old, new] if new is not None else list(old)
    running = active(everything)
    if len(running) <= 1:
        target = running[0] if running else new if new is not None else _latest(old)
        return [(target, size(deployment))] if target is not None else []
    if new is not None and _is_saturated(deployment, new):
        return [(replica_set, 0) for replica_set in active(old)]
    return _shares(deployment, running) if is_rolling(deployment) else []


def _latest(replica_sets: Sequence[Object]) -> Object | None:
    return by_age(replica_sets)[-1] if replica_sets else None


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = size(deployment)
    return size(new) == annotated(new, DESIRED) == counted([new], "availableReplicas") == wanted


def _shares(deployment: Object, running: list[Object]) -> Sizes:
    bounds = Bounds.of(deployment)
    missing = (bounds.most if bounds.replicas > 0 else 0) - sum(map(size, running))
    aged = by_age(running)
    # Of those of one size the newest grows first, the oldest shrinks first.
    ordered = sorted(aged if missing < 0 else reversed(aged), key=lambda each: -size(each))
    sizes, added = {uid_of(replica_set): size(replica_set) for replica_set in ordered}, 0
    for replica_set in ordered:
        share, left = _fraction(deployment, replica_set, bounds), missing - added
        part = min(share, left) if missing > 0 else max(share, left)
        if left:
            sizes[uid_of(replica_set)] += part
            added += part
    first = uid_of(ordered[0])
    sizes[first] = max(0, sizes[first] + missing - added)
    return [(replica_set, sizes[uid_of(replica_set)]) for replica_set in ordered]


def _fraction(deployment: Object, replica_set: Object, bounds: Bounds) -> int:
    """Returns by how many pods a ReplicaSet grows so that it keeps its share of all pods."""
    if not bounds.replicas:
        return -size(replica_set)
    before = annotated(replica_set, MOST) or counted([deployment], "replicas")
    if not before:
        return 0
    # Rounded to the nearest number, halves up.
    return (2 * size(replica_set) * bounds.most + before) // (2 * before) - size(replica_set)
