"""Status of DeviceTaintRules: writes EvictionInProgress, the first time at once, then at most every ten seconds.

With effect None a rule does nothing; what it would do is worked out once for each generation of its spec.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object, condition_of
from dray.client.clock import moment, timestamp
from dray.client.discovery import OptionalInformer
from dray.client.errors import NotFound
from dray.client.interface import WriteOptions
from dray.controllers.device_taints.evictions import Eviction
from dray.controllers.device_taints.rules import NO_EXECUTE, effect_of
from dray.controllers.environment import Environment, QueueController, named

TYPE: Final = "EvictionInProgress"
NO_EFFECT: Final = "NoEffect"
_ONCE: Final = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
PERIOD: Final = 10.0
# The name under which Kubernetes' own controller writes, so that one can take over from the other.
_MANAGER: Final = "device-taint-eviction-controller"


@dataclass(frozen=True, slots=True)
class Impact:
    """The number of pods and devices that a rule affects, or would affect with effect NoExecute."""

    pods: int = 0
    namespaces: int = 0
    published: int = 0
    """Number of devices in ResourceSlices that the rule selects."""
    allocated: int = 0
    """Number of devices in allocation results that the rule selects."""


def condition(rule: Object, impact: Impact, evicted: int) -> Object:
    """Builds the condition without its time; `evicted` counts pods that this process evicted for the rule."""
    status, reason, message = _state(effect_of(rule), impact, evicted)
    if evicted:
        message = f"{message} {_number(evicted, 'pod')} evicted since starting the controller.".lstrip()
    found: Object = {"type": TYPE, "status": status, "reason": reason, "message": message}
    if generation := rule["metadata"].get("generation"):
        found["observedGeneration"] = generation
    return found


def _state(effect: str, impact: Impact, evicted: int) -> tuple[str, str, str]:
    if effect == "None":
        return "False", NO_EFFECT, _simulation(impact)
    if effect != NO_EXECUTE:
        return "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if impact.pods:
        needs = "needs" if impact.pods == 1 else "need"
        return (
            "True",
            "PodsPendingEviction",
            f"{_number(impact.pods, 'pod')} {needs} to be evicted in {_places(impact.namespaces)}.",
        )
    return "False", "Completed" if evicted else "NotStarted", ""


def _simulation(impact: Impact) -> str:
    return (
        f"{_number(impact.published, 'published device')} selected. "
        f"{_number(impact.allocated, 'allocated device')} selected. "
        f"{_number(impact.pods, 'pod')} would be evicted in {_places(impact.namespaces)} "
        f"if the effect was NoExecute. {_ONCE}"
    )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _places(namespaces: int) -> str:
    return "1 namespace" if namespaces == 1 else f"{namespaces} different namespaces"


class RuleStatus(QueueController[str]):
    """Writes the status of rules; `impact` counts what a rule affects now."""

    def __init__(
        self, environment: Environment, rules: OptionalInformer, impact: Callable[[Object], Awaitable[Impact]]
    ) -> None:
        super().__init__(environment)
        self._environment = environment
        self._rules = rules
        self._impact = impact
        self._evicted: Counter[str] = Counter()
        """Number of evicted pods by uid of the rule."""
        self._written: dict[str, tuple[str, Object]] = {}
        """Uid and condition that were written last, by rule name: the cache may lag behind."""
        self._workers = environment.workers(
            "device-taint-rule-status", self._reconcile, called=named("DeviceTaintRule"), count=2
        )

    def changed(self, name: str) -> None:
        """Queues the rule after a change or an eviction."""
        self._workers.queue.add(name)

    def count(self, eviction: Eviction) -> None:
        """Counts an evicted pod for each rule that evicted it."""
        for reason in eviction.reasons:
            if not reason.published:
                self._evicted[reason.uid] += 1

    def forget(self, rule: Object) -> None:
        """Forgets a deleted rule."""
        self._evicted.pop(rule["metadata"].get("uid") or "", None)
        self._written.pop(rule["metadata"]["name"], None)

    async def _reconcile(self, name: str) -> float | None:
        rule = self._rules.cache.get(name)
        if rule is None:
            return None
        present = self._present(rule)
        if present is not None and present.get("observedGeneration") == rule["metadata"].get("generation"):
            if present.get("reason") == NO_EFFECT:
                return None
            since = self._environment.time.now() - moment(present["lastTransitionTime"])
            # A clock that ran ahead before must not keep the status as it is for long.
            left = min(PERIOD, PERIOD - since.total_seconds())
            if left > 0:
                return left
        # Nobody has to be counted for an effect that does not evict.
        counts = effect_of(rule) in (NO_EXECUTE, "None")
        impact = await self._impact(rule) if counts else Impact()
        wanted = condition(rule, impact, self._evicted[rule["metadata"].get("uid") or ""])
        if present is None or any(present.get(member) != value for member, value in wanted.items()):
            await self._write(rule, {**wanted, "lastTransitionTime": timestamp(self._environment.time.now())})
        return None

    def _present(self, rule: Object) -> Object | None:
        present = condition_of(rule, TYPE)
        uid, written = self._written.get(rule["metadata"]["name"], ("", None))
        if written is None or uid != rule["metadata"].get("uid"):
            return present
        if present is not None and moment(present["lastTransitionTime"]) >= moment(written["lastTransitionTime"]):
            return present
        return written

    async def _write(self, rule: Object, condition: Object) -> None:
        version = self._rules.version
        assert version is not None
        name, uid = rule["metadata"]["name"], rule["metadata"].get("uid") or ""
        body = {
            "apiVersion": version.api_version,
            "kind": version.kind,
            # The uid is a precondition.
            "metadata": {"name": name, "uid": uid},
            "status": {"conditions": [condition]},
        }
        options = WriteOptions(field_manager=_MANAGER, force=True)
        # The rule is gone; or the server is 1.34, whose rules have no status.
        with suppress(NotFound):
            await self._environment.client.apply(version, body, subresource="status", options=options)
        self._written[name] = uid, condition
