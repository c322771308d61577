"""The kubelets of simulated nodes, all in one reconciler keyed by pod.

`pod_lives` says what comes next for a pod; here it is done: claims are read and prepared, the status is written, the
pod removed. Writes are bound to the uid of the pod, and a pod that changed meanwhile is looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Key, Object, is_deleting, key_of, uid_of
from dray.api.pods import claims_used, extended_claim, is_terminal, node_of
from dray.client.cache import Change
from dray.client.errors import Conflict, NotFound
from dray.controllers.environment import Environment, Workers, named
from dray.fleet.choice import Chosen
from dray.fleet.pod_lives import Life, Step
from dray.fleet.pod_statuses import statuses_of
from dray.fleet.prepared_claims import HasDevice, PreparedClaims, PrepareError, check_owner, claims_needed
from dray.fleet.publication import NODES
from dray.fleet.stages import PodStage, pod_stage
from dray.fleet.utilization import FleetUtilization

PODS: Final = built_in("v1", "Pod")
CLAIMS: Final = built_in("resource.k8s.io/v1", "ResourceClaim")
Silence = Callable[[str], float | None]
"""A function that returns for how many seconds a node stays silent; None if it works."""
# As a kubelet waits before it tries again to prepare claims, but not as long: nobody wants to wait for a simulation.
_PREPARE_AGAIN: Final = 5.0


class Kubelets:
    def __init__(self, environment: Environment, chosen: Chosen, *, has_device: HasDevice, silence: Silence) -> None:
        self._client = environment.client
        self._time = environment.time
        self._events = environment.events
        self._machines = chosen.by_name()
        self._stages = chosen.stages
        self._seed = chosen.seed
        self._silence = silence
        self.claims = PreparedClaims(has_device)
        self.utilization = FleetUtilization(environment, self._machines)
        self._uids: dict[Key, str] = {}
        """Uids of known pods by key; the claims of a pod that vanished are unprepared."""
        self._workers: Workers[Key] = environment.workers(
            "simulated kubelets", self.reconcile, called=named("Pod"), count=16
        )
        self._nodes = environment.informers.of(NODES)
        self._pods = environment.informers.of(PODS)
        self._pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.utilization.run(), name="utilization of the fleet")
            group.create_task(self._workers.run(), name="simulated kubelets")

    def look(self, node: str) -> None:
        """Queues all pods of a node that works again."""
        for pod in self._pods.cache:
            if node_of(pod) == node:
                self._workers.queue.add(key_of(pod))

    async def recall(self) -> None:
        """Records the claims of running pods after a restart. Call before `run`."""
        running = [pod for pod in self._pods.cache if self._runs(pod)]
        if not any(self._claim_names(pod) for pod in running):
            return
        listed = await self._client.list_all(CLAIMS)
        claims = {key_of(claim): claim for claim in listed["items"]}
        for pod in running:
            for name in self._claim_names(pod):
                if (claim := claims.get((key_of(pod)[0], name))) is not None:
                    self.claims.remember(pod, claim)
                    self.utilization.started(pod, claim)
            self._uids[key_of(pod)] = uid_of(pod)

    def _runs(self, pod: Object) -> bool:
        started = any(not (status.get("state") or {}).get("waiting") for status in statuses_of(pod).values())
        return node_of(pod) in self._machines and not is_terminal(pod) and started

    def _claim_names(self, pod: Object) -> list[str]:
        extended = extended_claim(pod)
        return [*(name for _, name in claims_used(pod)), *([extended] if extended else [])]

    def _pod_changed(self, change: Change) -> None:
        if node_of(change.object) in self._machines:
            self._workers.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key[1], namespace=key[0])
        uid = uid_of(pod) if pod is not None else ""
        if (before := self._uids.get(key)) is not None and before != uid:
            self._unprepare(before)
            del self._uids[key]
        if pod is None or self._nodes.cache.get(node_of(pod)) is None:
            return None
        if (silent := self._silence(node_of(pod))) is not None:
            return silent
        self._uids[key] = uid
        stage = pod_stage(self._stages, pod)
        machine = self._machines[node_of(pod)]
        life = Life(pod=pod, stage=stage, seed=self._seed, now=self._time.now(), host_ip=machine.address)
        step = life.next_step()
        return await self._do(step, pod, stage)

    async def _do(self, step: Step, pod: Object, stage: PodStage) -> float | None:
        if step.prepare:
            try:
                await self._prepare(pod, stage)
            except PrepareError as error:
                text = f"Failed to prepare dynamic resources: {error}"
                self._events.warning(pod, "FailedPrepareDynamicResources", text)
                return _PREPARE_AGAIN
        if step.unprepare:
            self._unprepare(uid_of(pod))
        if step.status is not None:
            await self._write(pod, step.status)
        if step.remove:
            await self._remove(pod)
        return step.wait

    async def _prepare(self, pod: Object, stage: PodStage) -> None:
        if stage.prepare_error:
            raise PrepareError(stage.prepare_error)
        claims = []
        for name, own in claims_needed(pod):
            try:
                claim = await self._client.get(CLAIMS, name, namespace=key_of(pod)[0])
            except NotFound:
                raise PrepareError(f"ResourceClaim {key_of(pod)[0]}/{name} does not exist") from None
            if own:
                check_owner(pod, claim)
            claims.append(claim)
        self.claims.prepare(pod, claims)
        for claim in claims:
            self.utilization.started(pod, claim)

    def _unprepare(self, pod_uid: str) -> None:
        self.claims.unprepare(pod_uid)
        self.utilization.ended(pod_uid)

    async def _write(self, pod: Object, status: Object) -> None:
        try:
            await self._client.patch_status(PODS, pod, status)
        except NotFound:
            pass
        except Conflict:
            if not is_deleting(pod):
                raise

    async def _remove(self, pod: Object) -> None:
        with suppress(NotFound, Conflict):
            await self._client.delete_object(PODS, pod, grace_period=0)
