"""Pressure on a node: watches its signals, says so in its conditions, and evicts a pod at a time until there is enough.

A hard threshold evicts at once and with hardly any grace, a soft one after its grace period. A condition stays for the
transition period after its threshold was last met, so that it does not come and go.
"""

from __future__ import annotations

import asyncio
import logging
import time as clock
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from dray.api.objects import Object, key_of, mappings, spec_of
from dray.api.pod_defaults import qos_class
from dray.client.events import EventRecorder
from dray.node.eviction import ranking, storage, thresholds
from dray.node.eviction.ranking import PodConsumption
from dray.node.eviction.signals import observe
from dray.node.eviction.thresholds import DEFAULT_HARD, Observation, Threshold, parse_hard

_logger = logging.getLogger(__name__)
_HARD_GRACE: Final = 1.0
_MEMORY_TAINT: Final = "node.kubernetes.io/memory-pressure"
REASON: Final = "Evicted"


@dataclass(frozen=True, slots=True)
class EvictionOptions:
    """Eviction options with the kubelet's defaults; times in seconds."""

    hard: tuple[Threshold, ...] = field(default_factory=lambda: parse_hard(DEFAULT_HARD))
    soft: tuple[Threshold, ...] = ()
    transition: float = 300.0
    interval: float = 10.0
    soft_grace: float = 30.0
    """Longest grace period in seconds of a pod that is evicted for a soft threshold."""


class Evictable(Protocol):
    """A pod that runs here and may be evicted."""

    pod: Object

    def fail(self, reason: str, message: str, *, grace: float) -> bool:
        """Ends the pod for good. Returns True if it was not ending already."""

    async def consumption(self) -> PodConsumption: ...

    def places(self) -> tuple[Path, list[Path]]:
        """Returns the directory of its volumes, and all directories that it writes to."""


class Pressure:
    """Watches the node's resources and evicts pods; `changed` is called when the conditions of the node change."""

    def __init__(
        self,
        root: Path,
        options: EvictionOptions,
        pods: Callable[[], Iterable[Evictable]],
        events: EventRecorder,
        changed: Callable[[], None],
        *,
        observe: Callable[[Path], Mapping[str, Observation]] = observe,
        now: Callable[[], float] = clock.monotonic,
    ) -> None:
        self._root, self._observe, self._now = root, observe, now
        self._options = options
        self._since: dict[Threshold, float] = {}
        """The time at which a threshold that is met now was first met."""
        self._last: dict[str, float] = {}
        """The time at which a threshold of a condition was last met."""
        self.conditions: frozenset[str] = frozenset()
        self._changed = changed
        self._pods = pods
        self._events = events

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._options.interval)

    async def look(self) -> None:
        """Checks all thresholds once, updates the conditions and evicts at most one pod for them."""
        await self._check_storage()
        seen = self._observe(self._root)
        met = thresholds.met((*self._options.hard, *self._options.soft), seen)
        now = self._now()
        self._since = {threshold: self._since.get(threshold, now) for threshold in met}
        self._update_conditions(met, now)
        due = [threshold for threshold in met if now - self._since[threshold] >= threshold.grace]
        if due:
            # Memory first, and hard thresholds before soft ones.
            first = min(due, key=lambda each: (thresholds.SIGNALS.index(each.signal), each.grace))
            await self._evict_one(first, seen[first.signal])

    def refusal(self, pod: Object) -> str:
        """Returns why a newly bound pod is not started under the present conditions; empty if it may start."""
        if not self.conditions or ranking.is_critical(pod):
            return ""
        bearable = self.conditions == {"MemoryPressure"}
        if bearable and (qos_class(spec_of(pod)) != "BestEffort" or _tolerates(pod, _MEMORY_TAINT)):
            return ""
        return f"The node had condition: [{', '.join(sorted(self.conditions))}]. "

    def _update_conditions(self, met: list[Threshold], now: float) -> None:
        for threshold in met:
            self._last[thresholds.CONDITIONS[threshold.signal]] = now
        held = frozenset(name for name, last in self._last.items() if now - last <= self._options.transition)
        if held != self.conditions:
            self.conditions = held
            self._changed()

    async def _evict_one(self, threshold: Threshold, seen: Observation) -> None:
        candidates = {id(evictable.pod): evictable for evictable in self._pods()}
        used = [found for each in candidates.values() if (found := await _consumption(each)) is not None]
        grace = self._options.soft_grace if threshold.grace else _HARD_GRACE
        for consumption in ranking.ranked(used, threshold.signal):
            if self._evict(candidates[id(consumption.pod)], ranking.message(threshold, seen, consumption), grace):
                return

    def _evict(self, pod: Evictable, message: str, grace: float) -> bool:
        if not pod.fail(REASON, message, grace=grace):
            return False
        self._events.warning(pod.pod, REASON, message)
        return True

    async def _check_storage(self) -> None:
        for evictable in list(self._pods()):
            if storage.is_limited(evictable.pod) and not ranking.is_critical(evictable.pod):
                volumes, written = evictable.places()
                try:
                    said = await asyncio.to_thread(storage.excess, evictable.pod, volumes, written)
                except Exception:
                    _logger.exception("the storage of pod %s/%s is not known", *key_of(evictable.pod))
                    continue
                if said:
                    self._evict(evictable, said, _HARD_GRACE)


async def _consumption(pod: Evictable) -> PodConsumption | None:
    """Returns None if the consumption cannot be read; other pods can still be evicted."""
    try:
        return await pod.consumption()
    except Exception:
        _logger.exception("the resource usage of pod %s/%s cannot be read", *key_of(pod.pod))
        return None


def _tolerates(pod: Object, taint: str) -> bool:
    given = mappings(spec_of(pod).get("tolerations"))
    return any(
        toleration.get("key") in (None, "", taint) and toleration.get("effect") in (None, "", "NoSchedule")
        for toleration in given
    )
