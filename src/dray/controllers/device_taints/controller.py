"""Evicts pods from tainted devices when their time has come.

The key of the work is the pod: what is to happen to it is worked out from the caches each time. The handlers only
find the pods that a change may concern: nothing is asked where no device is tainted, and then claims are found by
device and pods by claim. A change of a rule concerns claims that no index finds; a sweep through them is work too.

What the informer knows may be old, so a pod is read again before it is deleted. Everything is bound to its uid: a pod
of the same name that came since is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dray.allocation.devices import DeviceID
from dray.api.caches import BoundedDict
from dray.api.objects import Key, Object, is_deleting, key_of, status_of
from dray.api.pods import node_of
from dray.api.resource_claims import devices_of
from dray.client.cache import Change
from dray.client.clock import Deadlines
from dray.client.errors import NotFound
from dray.controllers.device_taints import evictions, rules
from dray.controllers.device_taints.evictions import Eviction, Reason
from dray.controllers.device_taints.lookup import Lookup, uses
from dray.controllers.device_taints.rule_status import Impact, RuleStatus
from dray.controllers.device_taints.tainted import TaintedDevices
from dray.controllers.environment import Environment, Workers, named
from dray.controllers.kinds import PODS
from dray.controllers.pod_deletion import DeletionMetrics, disruption, end_pod

EVENT: Final = "DeviceTaintManagerEviction"
_REASON: Final = "DeletionByDeviceTaintManager"
_MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"
_REMEMBERED: Final = 500
# The time of day may be set anew while the timer runs.
_LONGEST_WAIT: Final = 3600.0


class Deletion:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._ended: BoundedDict[str, None] = BoundedDict(_REMEMBERED)
        self._metrics = DeletionMetrics("device_taint_eviction_controller", "device taints", environment.metrics)

    def is_done(self, pod: Object) -> bool:
        """Whether the pod was seen to end here, though the informer may not know yet."""
        return pod["metadata"].get("uid") in self._ended

    async def delete(self, known: Object, due: datetime) -> bool:
        """Deletes the pod. Returns False if it was gone already. Raises ClientError."""
        uid = known["metadata"].get("uid") or ""
        try:
            deleted = await self._delete(known, uid)
        except NotFound:
            deleted = False
        self._ended[uid] = None
        if deleted:
            self._metrics.deleted(max(0.0, (self._environment.time.now() - due).total_seconds()))
        return deleted

    async def _delete(self, known: Object, uid: str) -> bool:
        client = self._environment.client
        namespace, name = key_of(known)
        pod = await client.get(PODS, name, namespace=namespace)
        if pod["metadata"].get("uid") != uid or is_deleting(pod):
            return False
        self._environment.events.normal(pod, EVENT, "Marking for deletion")
        return await end_pod(client, pod, status=disruption(pod, _REASON, _MESSAGE, self._environment.time.now()))


@dataclass(frozen=True, slots=True)
class Pending:
    uid: str
    eviction: Eviction


class DeviceTaintEviction:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._lookup = Lookup(environment.informers)
        self._rules = rules.taint_rules(environment)
        self._tainted = TaintedDevices()
        self._evicting: dict[str, Object] = {}
        """Rules that evict, by name."""
        self._pending: dict[Key, Pending] = {}
        self._deadlines = Deadlines(environment.time)
        self._deletion = Deletion(environment)
        self._status = RuleStatus(environment, self._rules, self._impact)
        self._workers: Workers[Key] = environment.workers("device-taint-eviction", self._reconcile, called=named("Pod"))
        self._sweeps: Workers[str] = environment.workers(
            "device-taint-rule", self._sweep, called=named("DeviceTaintRule"), count=1
        )

    async def run(self) -> None:
        if not self._environment.gates["DRADeviceTaints"]:
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            await rules.follow_rules(self._rules, self._environment, group)
            self._lookup.slices.add_handler(self._on_slice)
            self._rules.add_handler(self._on_rule)
            self._lookup.claims.add_handler(self._on_claim)
            self._lookup.pods.add_handler(self._on_pod)
            for part in (self._status, self._sweeps, self._workers):
                group.create_task(part.run())

    # What a change may concern

    def _on_pod(self, change: Change) -> None:
        pod, before = change.object, change.previous
        if not pod["spec"].get("resourceClaims"):
            return
        pending = change.key in self._pending
        if change.type == "DELETED" or is_deleting(pod):
            if pending:
                self._workers.queue.add(change.key)
            return
        if not (pending or self._tainted or self._evicting) or not node_of(pod):
            return
        if before is None or not node_of(before) or _claim_statuses(before) != _claim_statuses(pod):
            self._workers.queue.add(change.key)

    def _on_claim(self, change: Change) -> None:
        if not (self._pending or self._tainted or self._evicting):
            return
        claim, before = change.object, change.previous
        if change.type == "MODIFIED" and before is not None and _use(before) == _use(claim):
            return
        if self._is_tainted(claim) or (before is not None and self._is_tainted(before)):
            self._look_at_users(claim)

    def _on_slice(self, change: Change) -> None:
        gone = change.type == "DELETED"
        changed = self._tainted.remove(change.object) if gone else self._tainted.put(change.object)
        for device in changed:
            for claim in self._lookup.holders(device):
                self._look_at_users(claim)

    def _on_rule(self, change: Change) -> None:
        rule, before = change.object, change.previous
        name = rule["metadata"]["name"]
        if change.type == "DELETED":
            self._evicting.pop(name, None)
            self._status.forget(rule)
            self._sweeps.queue.add(name)
            return
        if change.type == "MODIFIED" and before is not None and before["spec"] == rule["spec"]:
            # Most likely our own change of the status.
            return
        if rules.is_evicting(rule):
            self._evicting[name] = rule
        else:
            self._evicting.pop(name, None)
        self._status.changed(name)
        self._sweeps.queue.add(name)

    def _look_at_users(self, claim: Object) -> None:
        for pod in self._lookup.users(claim):
            self._workers.queue.add(key_of(pod))

    def _is_tainted(self, claim: Object) -> bool:
        return any(True for device in devices_of(claim) for _ in self._taints_of(device))

    def _taints_of(self, device: DeviceID) -> Iterator[tuple[Reason, Object]]:
        for position, taint in self._tainted.taints(device):
            yield evictions.by_slice(device, position), taint
        for rule in self._evicting.values():
            if rules.selects(rule, device):
                yield evictions.by_rule(rule), rule["spec"]["taint"]

    async def _sweep(self, name: str) -> None:
        """Looks again at the pods that the rule selects or selected."""
        for key, pending in self._pending.items():
            if name in pending.eviction.rules:
                self._workers.queue.add(key)
        rule = self._evicting.get(name)
        if rule is not None:
            for claim in await self._lookup.selected(rule):
                self._look_at_users(claim)

    # What is to be done

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._lookup.pods.cache.get(key[1], namespace=key[0])
        eviction = self._plan(pod) if pod is not None else None
        if pod is None or eviction is None:
            self._cancel(key, pod)
            return None
        self._announce(key, Pending(pod["metadata"].get("uid") or "", eviction))
        wait = self._deadlines.left(key, eviction.when)
        if wait > 0:
            return min(wait, _LONGEST_WAIT)
        if await self._deletion.delete(pod, eviction.when):
            self._status.count(eviction)
        self._drop(key)
        return None

    def _plan(self, pod: Object) -> Eviction | None:
        if not self._can_go(pod):
            return None
        found = (evictions.claim_eviction(claim, self._taints_of) for claim in self._lookup.claims_of(pod))
        return evictions.merged(each for each in found if each is not None)

    def _can_go(self, pod: Object) -> bool:
        """Whether there is something to evict: the pod has a node, and its end has not begun."""
        return bool(node_of(pod)) and not is_deleting(pod) and not self._deletion.is_done(pod)

    def _announce(self, key: Key, pending: Pending) -> None:
        if self._pending.get(key) == pending:
            return
        self._drop(key)
        self._pending[key] = pending
        self._tell(pending.eviction.rules)

    def _cancel(self, key: Key, pod: Object | None) -> None:
        pending = self._drop(key)
        if pending is None or pod is None or pod["metadata"].get("uid") != pending.uid:
            return
        if not is_deleting(pod) and not self._deletion.is_done(pod):
            about = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
            self._environment.events.normal(about, EVENT, "Cancelling deletion")

    def _drop(self, key: Key) -> Pending | None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            self._deadlines.forget(key)
            self._tell(pending.eviction.rules)
        return pending

    def _tell(self, names: Iterable[str]) -> None:
        for name in names:
            self._status.changed(name)

    # What a rule does

    async def _impact(self, rule: Object) -> Impact:
        """Counts the pods and devices that a rule affects, or would affect with effect NoExecute."""
        simulated = not rules.is_evicting(rule)
        rule = rules.with_effect(rule, rules.NO_EXECUTE)
        reason = (evictions.by_rule(rule), rule["spec"]["taint"])
        affected: set[Key] = set()
        allocated = 0
        for claim in await self._lookup.selected(rule):
            allocated += sum(rules.selects(rule, device) for device in devices_of(claim))
            if evictions.claim_eviction(claim, lambda device: [reason] if rules.selects(rule, device) else []):
                users = filter(self._can_go, self._lookup.users(claim))
                affected |= {key_of(pod) for pod in users if uses(pod, claim)}
        published = await self._lookup.published(rule) if simulated else 0
        return Impact(
            pods=len(affected),
            namespaces=len({namespace for namespace, _ in affected}),
            published=published,
            allocated=allocated,
        )


def _claim_statuses(pod: Object) -> Any:
    return status_of(pod).get("resourceClaimStatuses")


def _use(claim: Object) -> tuple[Any, Any]:
    """Returns the allocation and the reservations: the parts of a claim that decide which pods are evicted."""
    status = status_of(claim)
    return status.get("allocation"), status.get("reservedFor")
