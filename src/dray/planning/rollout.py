"""Rollouts: pods of an earlier template are replaced step by step, within the limits of their workload.

New pods are created while there may be more pods, old ones are deleted while enough others are on nodes. A rollout
whose new pods find no node stops, and its old pods stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dray.api.objects import Key, Object


@dataclass(frozen=True, slots=True)
class Rollout:
    """Pods in the order in which they are deleted and created; a new pod may have the name of an old one."""

    old: tuple[Key, ...]
    new: tuple[Key, ...]
    kept: int
    """The number of pods that have the new template already."""
    surge: int
    unavailable: int
    reason: str
    """Why the old pods are deleted."""
    first: tuple[Key, ...] = ()
    """Pods that need a node before the rollout begins."""


class RolloutRun:
    """`delete`, `create` and `settle` act on the cluster; `is_placed` says whether a pod has a node."""

    def __init__(
        self,
        rollout: Rollout,
        pods: Sequence[Object],
        *,
        delete: Callable[[Key, str], None],
        create: Callable[[Object], None],
        is_placed: Callable[[Key], bool],
    ) -> None:
        """`pods` are the documents of the new pods that can be created, in order."""
        self._rollout = rollout
        self._old, self._pods = list(rollout.old), list(pods)
        self._created: list[Key] = []
        self._delete, self._create, self._is_placed = delete, create, is_placed
        self._replicas = rollout.kept + len(pods)

    def step(self) -> bool:
        """Deletes and creates as many pods as the limits allow now; returns False if the rollout is over or stuck."""
        if not all(map(self._is_placed, self._rollout.first)):
            return False
        placed = sum(map(self._is_placed, self._created))
        ready = self._rollout.kept + placed + sum(map(self._is_placed, self._old))
        waiting = [key for key in self._old if not self._is_placed(key)]
        spare = max(0, ready - (self._replicas - self._rollout.unavailable))
        leaving = [*waiting, *[key for key in self._old if key not in waiting][:spare]]
        for key in leaving:
            self._delete(key, self._rollout.reason)
            self._old.remove(key)
        room = self._replicas + self._rollout.surge - (self._rollout.kept + len(self._created) + len(self._old))
        starting = self._pods[: max(0, room)]
        for pod in starting:
            self._create(pod)
            self._created.append((pod["metadata"]["namespace"], pod["metadata"]["name"]))
        self._pods = self._pods[len(starting) :]
        return bool(leaving or starting)

    @property
    def left(self) -> list[Object]:
        """New pods that were not created, because the rollout is stuck."""
        return self._pods
