"""Evicts pods from nodes with NoExecute taints, at once or when their tolerations expire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dray.api.objects import Key, Object, condition_of, key_of, spec_of, uid_of
from dray.api.times import after
from dray.client.cache import Change
from dray.client.clock import Deadlines, moment
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import PODS
from dray.controllers.pod_deletion import BY_NODE, DeletionMetrics, disruption, end_pod, node_of
from dray.scheduling.model.tolerations import tolerates

_REASON: Final = "DeletionByTaintManager"


@dataclass(frozen=True, slots=True)
class Expulsion:
    """A NoExecute taint, and since when the node has it."""

    taint: Object
    since: datetime


def deadline(pod: Object, expulsions: Iterable[Expulsion], now: datetime) -> datetime | None:
    """Returns when the pod must be evicted; None for never. A taint older than the pod counts from the pod's binding.

    Of several tolerations that match a taint the first one counts.
    """
    tolerations = spec_of(pod).get("tolerations") or ()
    bound = _bound(pod)
    ends: list[datetime] = []
    for expulsion in expulsions:
        toleration = next((candidate for candidate in tolerations if tolerates(candidate, expulsion.taint)), None)
        if toleration is None:
            ends.append(min(expulsion.since, now))
        elif (seconds := toleration.get("tolerationSeconds")) is not None:
            since = expulsion.since if bound is None else max(expulsion.since, bound)
            ends.append(after(since, max(seconds, 0)))
    return min(ends, default=None)


def _bound(pod: Object) -> datetime | None:
    condition = condition_of(pod, "PodScheduled", "True")
    return _moment(condition.get("lastTransitionTime") if condition else pod["metadata"].get("creationTimestamp"))


def _moment(text: str | None) -> datetime | None:
    try:
        return moment(text) if text else None
    except ValueError:
        return None


class Evictions(QueueController[Key]):
    """Evicts pods from tainted nodes. Keys are namespace and name of pods."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers("taint eviction", self.reconcile, called=named("Pod"))
        # By node; nodes without such taints are not in it.
        self._expulsions: dict[str, tuple[Expulsion, ...]] = {}
        self._deadlines = Deadlines(self._time)
        # Pods whose time has not come yet.
        self._scheduled: set[Key] = set()
        self._pods = environment.informers.of(PODS, {BY_NODE: node_of})
        self._metrics = DeletionMetrics("taint_eviction_controller", "node taints", environment.metrics)
        self._pods.add_handler(self._pod_changed)

    def node_changed(self, change: Change) -> None:
        name = change.key[1]
        taints = spec_of(change.object).get("taints") if change.type != "DELETED" else None
        before = self._expulsions.get(name, ())
        if not taints and not before:
            return
        expulsions = self._follow(before, taints or ())
        if expulsions == before:
            return
        if expulsions:
            self._expulsions[name] = expulsions
        else:
            del self._expulsions[name]
        for key in map(key_of, self._pods.cache.by(BY_NODE, name)):
            if expulsions or key in self._scheduled:
                self._workers.queue.add(key)

    def _follow(self, before: tuple[Expulsion, ...], taints: list[Object] | tuple[()]) -> tuple[Expulsion, ...]:
        """A taint that does not say since when it is there counts from the moment it was seen."""
        known = {(expulsion.taint.get("key"), expulsion.taint.get("value")): expulsion for expulsion in before}
        found = []
        for taint in taints:
            if taint.get("effect") != "NoExecute":
                continue
            same = known.get((taint.get("key"), taint.get("value")))
            if same is None or same.taint != taint:
                same = Expulsion(taint, self._since(taint))
            found.append(same)
        return tuple(found)

    def _since(self, taint: Object) -> datetime:
        try:
            return moment(taint["timeAdded"])
        except (KeyError, TypeError, ValueError):
            return self._time.now()

    def _pod_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._cancel(change.key, change.object)
            return
        if not self._expulsions:
            return
        spec = spec_of(change.object)
        if spec.get("nodeName") not in self._expulsions:
            return
        before = (change.previous or {}).get("spec") or {}
        if before.get("nodeName") != spec["nodeName"] or before.get("tolerations") != spec.get("tolerations"):
            self._workers.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key[1], namespace=key[0])
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        now = self._time.now()
        end = deadline(pod, self._expulsions.get(pod["spec"].get("nodeName") or "", ()), now)
        if end is None:
            self._cancel(key, pod)
            return None
        left = self._deadlines.left((key, uid_of(pod)), end)
        if left > 0:
            self._scheduled.add(key)
            return left
        self._deadlines.forget((key, uid_of(pod)))
        self._scheduled.discard(key)
        await self._evict(pod, -left)
        return None

    def _cancel(self, key: Key, pod: Object) -> None:
        """Cancels a scheduled eviction: the pod tolerates the taints now, or is gone."""
        self._deadlines.forget((key, uid_of(pod)))
        if key in self._scheduled:
            self._scheduled.discard(key)
            self._tell(pod, "Cancelling deletion of Pod")

    def _tell(self, pod: Object, message: str) -> None:
        about = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
        self._events.normal(about, "TaintManagerEviction", f"{message} {'/'.join(key_of(pod))}")

    async def _evict(self, pod: Object, late: float) -> None:
        text = "Taint manager: deleting due to NoExecute taint"
        status = disruption(pod, _REASON, text, self._time.now())
        if await end_pod(self._client, pod, status=status):
            self._tell(pod, "Marking for deletion Pod")
            self._metrics.deleted(late)
