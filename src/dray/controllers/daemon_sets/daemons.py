"""A snapshot of a DaemonSet: its pods by node, and where it is to run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from dray.api.int_or_percent import scaled
from dray.api.objects import Object, is_deleting, labels_of, mapping
from dray.api.pods import node_of
from dray.controllers.daemon_sets.placement import Placement, Requirements
from dray.controllers.daemon_sets.template import target
from dray.controllers.workloads.availability import is_available
from dray.controllers.workloads.revisions import HASH_LABEL


@dataclass(frozen=True)
class Daemons:
    daemon_set: Object
    revision: str
    """Hash of the current template."""
    placements: dict[str, Placement]
    """Placements by node name, for every node that exists."""
    pods: dict[str, list[Object]]
    """Pods by node name, in order of creation; includes nodes that no longer exist."""
    now: datetime

    @classmethod
    def of(
        cls, daemon_set: Object, revision: str, nodes: Iterable[Object], pods: Iterable[Object], now: datetime
    ) -> Daemons:
        requirements = Requirements(daemon_set)
        placements = {node["metadata"]["name"]: requirements.place(node) for node in nodes}
        return cls(daemon_set, revision, placements, _by_node(pods), now)

    def with_pods(self, pods: Iterable[Object]) -> Daemons:
        """Returns a copy with these pods."""
        return replace(self, pods=_by_node(pods))

    @property
    def min_ready(self) -> int:
        return int(self.daemon_set["spec"].get("minReadySeconds") or 0)

    @cached_property
    def wanted(self) -> int:
        return sum(place.runs for place in self.placements.values())

    def is_new(self, pod: Object) -> bool:
        return labels_of(pod).get(HASH_LABEL) == self.revision

    def is_available(self, pod: Object) -> bool:
        return is_available(pod, self.min_ready, self.now)

    def staying(self, node: str) -> list[Object]:
        return [pod for pod in self.pods.get(node, ()) if not is_deleting(pod)]

    @cached_property
    def surge(self) -> int:
        return self._bound("maxSurge", 0)

    @cached_property
    def max_unavailable(self) -> int:
        # With neither nothing would ever be replaced.
        return self._bound("maxUnavailable", 1) or (0 if self.surge else 1)

    def _bound(self, member: str, default: int) -> int:
        strategy = mapping(self.daemon_set["spec"].get("updateStrategy"))
        if strategy.get("type") == "OnDelete":
            return default
        value = mapping(strategy.get("rollingUpdate")).get(member)
        return scaled(default if value is None else value, self.wanted)


def _by_node(pods: Iterable[Object]) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for pod in sorted(pods, key=_age):
        found.setdefault(target(pod), []).append(pod)
    return found


def _age(pod: Object) -> tuple[Any, ...]:
    """Sort key: bound pods first, then older pods first."""
    metadata = pod["metadata"]
    return not node_of(pod), str(metadata.get("creationTimestamp") or ""), metadata["name"]
