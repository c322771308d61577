"""DisruptionBudgets: which evictions violate a PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api import label_selectors
from dray.api.objects import Key, Object, key_of, status_of
from dray.scheduling.model.pod import Pod


class DisruptionBudgets:
    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, Object]] = {}
        """The PodDisruptionBudgets by namespace and name."""

    def put(self, budget: Object) -> None:
        namespace, name = key_of(budget)
        self._budgets.setdefault(namespace, {})[name] = budget

    def remove(self, budget: Object) -> None:
        namespace, name = key_of(budget)
        self._budgets.get(namespace, {}).pop(name, None)

    def split(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Returns the pods whose eviction, in this order, violates a budget, and the others."""
        left: dict[Key, int] = {}
        violating: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            violates = False
            for name, budget in self._budgets.get(pod.key[0], {}).items():
                if not _covers(budget, pod):
                    continue
                key = (pod.key[0], name)
                left.setdefault(key, int(status_of(budget).get("disruptionsAllowed") or 0))
                left[key] -= 1
                violates = violates or left[key] < 0
            (violating if violates else others).append(pod)
        return violating, others


def _covers(budget: Object, pod: Pod) -> bool:
    selector = budget["spec"].get("selector")
    # The budget counts a pod already whose disruption was granted.
    if pod.key[1] in (status_of(budget).get("disruptedPods") or {}):
        return False
    return selector is not None and label_selectors.from_object(selector)(pod.labels)
