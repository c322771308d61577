"""The plan of a ReplicaSet: how many pods to make, or which of them to delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dray.api.objects import Object, spec_of, uid_of
from dray.api.pods import is_active, node_of
from dray.controllers.workloads.removal import ranked_order

# As many at most in one pass, so that others get their turn.
BURST: Final = 500


@dataclass(frozen=True, slots=True)
class Plan:
    create: int
    delete: tuple[Object, ...]


def plan(owner: Object, pods: Sequence[Object], kin: Iterable[Object], now: datetime) -> Plan:
    """`pods` are the owner's, `kin` all pods that belong to it or to others of the same controller."""
    active = [pod for pod in pods if is_active(pod)]
    surplus = len(active) - replicas_of(owner)
    if surplus <= 0:
        return Plan(min(-surplus, BURST), ())
    neighbours = Counter(node_of(pod) for pod in _distinct([*active, *kin]) if is_active(pod))
    active.sort(key=lambda pod: ranked_order(pod, neighbours[node_of(pod)], now))
    return Plan(0, tuple(active[: min(surplus, BURST)]))


def replicas_of(owner: Object) -> int:
    replicas = spec_of(owner).get("replicas")
    return 1 if replicas is None else max(0, int(replicas))


def _distinct(pods: Iterable[Object]) -> list[Object]:
    return list({uid_of(pod): pod for pod in pods}.values())
