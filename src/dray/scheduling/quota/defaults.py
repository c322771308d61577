"""Defaults for queue systems: evictions by priority, and charges that are the same on every node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from math import inf

from dray.api.objects import Key, Object
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.quota.queue_policy import Ask, Asset, FlavorChoice, ReclaimTrial, Removals, RunningUnit

Unit = tuple[Pod, ...]
"""Pods that are evicted together: those of a group that is evicted as a whole, or a single pod."""


class PriorityRemovals:
    """Pods of lower priority may be evicted for pods that fit on no node, and no pods for quota."""

    retry_at = inf
    hopeless = False

    def __init__(self, priority: int, rank: Callable[[Pod], int] = lambda _: 0) -> None:
        """Orders units of equal priority by `rank`: a unit of higher rank is more important."""
        self._priority = priority
        self._rank = rank

    def is_evictable(self, pod: Pod) -> bool:
        return pod.priority < self._priority

    def allowed(self, units: Iterable[Unit]) -> list[Unit]:
        return sorted(units, key=self._importance)

    def _importance(self, unit: Unit) -> tuple[int, int, int, str, Key]:
        """Returns a sort key; important units come first: by priority, by rank, by number of pods, by running time."""
        highest, start = max(pod.priority for pod in unit), min(map(start_of, unit))
        # Which of equals is evicted must not depend on the order in which the scheduler came to know them.
        return -highest, -self._rank(unit[0]), -len(unit), start, min(pod.key for pod in unit)

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        return False


class PriorityEvictions:
    """A base class for queue systems: pods of lower priority may be evicted to free nodes, and no pods for quota."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @property
    def wait_key(self) -> Hashable:
        return None

    def removals(self) -> Removals:
        return PriorityRemovals(self._ask.pod.priority)

    def may_reclaim(self) -> bool:
        return False

    def reclaim(self, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        return None

    def may_evict(self, queue: str, priority: int, *, lacks: bool) -> bool:
        return False

    def is_hopeful(self) -> bool:
        return True

    def has_room(self, reserved: Mapping[Asset, int]) -> bool:
        return True


class OneFlavor:
    """NodeFlavors of queues that charge the same on every node."""

    is_tolerant = False

    def assets(
        self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int], *, reserved: bool = False
    ) -> dict[Asset, int]:
        return {Asset("", name): amount for name, amount in amounts.items()}

    def choice(self, ask: Ask, node: Node) -> FlavorChoice:
        return FlavorChoice((), 0)

    def tolerates(self, queue: str, node: Node, taint: Object) -> bool:
        return False

    def distinguishes(self, labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
        return False
