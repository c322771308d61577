"""Status of DeviceTaintRules: writes EvictionInProgress, the first time at once, then at most every ten seconds.

With effect None a rule does nothing; what it would do is worked out once for each generation of its spec.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from dray.api.objects import Object
from dray.client.clock import moment, timestamp
from dray.client.discovery import OptionalInformer
from dray.client.errors import NotFound
from dray.client.interface import WriteOptions
from dray.controllers.device_taints import rule_condition
from dray.controllers.device_taints.evictions import Eviction
from dray.controllers.device_taints.rule_condition import Impact
from dray.controllers.device_taints.rules import NO_EXECUTE, effect_of
from dray.controllers.environment import Environment, Workers, named

PERIOD: Final = 10.0
# The name under which Kubernetes' own controller writes, so that one can take over from the other.
_MANAGER: Final = "device-taint-eviction-controller"


class RuleStatus:
    """`impact` tells what a rule does at the moment."""

    def __init__(
        self, environment: Environment, rules: OptionalInformer, impact: Callable[[Object], Awaitable[Impact]]
    ) -> None:
        self._environment = environment
        self._rules = rules
        self._impact = impact
        self._evicted: Counter[str] = Counter()
        """Pods by uid of the rule."""
        self._written: dict[str, tuple[str, Object]] = {}
        """By name, the uid and the condition: the informer may not have it yet."""
        self._workers: Workers[str] = environment.workers(
            "device-taint-rule-status", self._reconcile, called=named("DeviceTaintRule"), count=2
        )

    def changed(self, name: str) -> None:
        """Something was done for the rule, or is to be done now."""
        self._workers.queue.add(name)

    def count(self, eviction: Eviction) -> None:
        """A pod was evicted."""
        for reason in eviction.reasons:
            if not reason.published:
                self._evicted[reason.uid] += 1

    def forget(self, rule: Object) -> None:
        """The rule is gone."""
        self._evicted.pop(rule["metadata"].get("uid") or "", None)
        self._written.pop(rule["metadata"]["name"], None)

    async def run(self) -> None:
        await self._workers.run()

    async def _reconcile(self, name: str) -> float | None:
        rule = self._rules.cache.get(name)
        if rule is None:
            return None
        present = self._present(rule)
        if present is not None and present.get("observedGeneration") == rule["metadata"].get("generation"):
            if present.get("reason") == rule_condition.NO_EFFECT:
                return None
            since = self._environment.time.now() - moment(present["lastTransitionTime"])
            # A clock that ran ahead before must not keep the status as it is for long.
            left = min(PERIOD, PERIOD - since.total_seconds())
            if left > 0:
                return left
        # Nobody has to be counted for an effect that does not evict.
        counts = effect_of(rule) in (NO_EXECUTE, "None")
        impact = await self._impact(rule) if counts else Impact()
        wanted = rule_condition.condition(rule, impact, self._evicted[rule["metadata"].get("uid") or ""])
        if present is None or any(present.get(member) != value for member, value in wanted.items()):
            await self._write(rule, {**wanted, "lastTransitionTime": timestamp(self._environment.time.now())})
        return None

    def _present(self, rule: Object) -> Object | None:
        present = rule_condition.of(rule)
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
