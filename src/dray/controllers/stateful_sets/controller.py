"""The StatefulSet controller: event handlers, and one reconciliation of a StatefulSet.

One pass: find out which pods and revisions are its, carry out the plan, write the status, delete old revisions. What
was written here is seen in the same pass.
"""

from __future__ import annotations

from typing import Final

from dray.api.label_selectors import Matcher, from_object
from dray.api.objects import Key, Object, controller_of, is_deleting, key_of, status_of, uid_of
from dray.api.pods import phase_of
from dray.client.cache import Change
from dray.client.errors import ClientError
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import PODS, STATEFUL_SETS
from dray.controllers.stateful_sets import identity, status
from dray.controllers.stateful_sets.claims import ClaimControl
from dray.controllers.stateful_sets.plan import Plan, plan
from dray.controllers.stateful_sets.replicas import Replicas, revision_of
from dray.controllers.workloads.adoption import BY_CONTROLLER, Adoption, index_by_controller, selecting
from dray.controllers.workloads.availability import until_available
from dray.controllers.workloads.batches import in_batches, slow_start
from dray.controllers.workloads.own_writes import OwnWrites, follow_owner
from dray.controllers.workloads.pod_control import PodControl
from dray.controllers.workloads.revisions import Revisions, template_of

_HASH: Final = "controller.kubernetes.io/hash"
# How often to look whether a claim that is on its way out is gone.
_CLAIMS: Final = 5.0


class StatefulSetController(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._stateful_sets = environment.informers.of(STATEFUL_SETS)
        self._pods = environment.informers.of(PODS, {BY_CONTROLLER: index_by_controller})
        self._own = OwnWrites(self._stateful_sets)
        self._written = OwnWrites(self._pods)
        self._adoption = Adoption(self._client, STATEFUL_SETS, PODS, self._pods, self._written, fits=identity.is_member)
        self._control = PodControl(environment, self._written)
        self._claims = ClaimControl(environment)
        self._revisions = Revisions(environment, STATEFUL_SETS, _HASH)
        self._workers = environment.workers("statefulset", self._reconcile, called=named("StatefulSet"))
        self._stateful_sets.add_handler(self._on_stateful_set)
        self._pods.add_handler(self._on_pod)

    # What happened

    def _on_stateful_set(self, change: Change) -> None:
        follow_owner(change, self._workers.queue, self._own, self._written, self._revisions)

    def _on_pod(self, change: Change) -> None:
        if not self._stateful_sets.cache:
            return
        for changed in (change.object, change.previous):
            owner = controller_of(changed) if changed is not None else None
            if owner is not None and owner.get("kind") == STATEFUL_SETS.kind:
                if change.type == "DELETED":
                    self._written.removed(owner["uid"], uid_of(change.object))
                self._workers.queue.add((change.key[0], owner["name"]))
        if change.type != "DELETED":
            for key in selecting(self._stateful_sets.cache, change.object, _selector):
                self._workers.queue.add(key)

    # StatefulSets

    async def _reconcile(self, key: Key) -> float | None:
        owner = self._own.newest_owner(key, STATEFUL_SETS)
        if owner is None or is_deleting(owner):
            return None
        revisions = await self._revisions.of(owner)
        update = await self._revisions.in_force(owner, revisions)
        by_name = {key_of(revision)[1]: revision for revision in revisions}
        current = by_name.get(status_of(owner).get("currentRevision") or "", update)
        await self._adoption.settle(owner, _selector(owner))
        replicas = self._view(owner, current, update)
        failure, is_whole = None, True
        try:
            await self._claims.settle(replicas)
            is_whole = await self._carry_out(
                replicas, plan(replicas), {key_of(revision)[1]: revision for revision in revisions}
            )
        except ClientError as error:
            # What there is counts all the same.
            failure = error
        replicas = self._view(owner, current, update)
        await self._own.write_status(self._client, STATEFUL_SETS, replicas.stateful_set, status.status(replicas))
        used = {current["metadata"]["name"], update["metadata"]["name"], *map(revision_of, replicas.pods.values())}
        await self._revisions.prune(owner, revisions, {uid_of(by_name[name]) for name in used if name in by_name})
        if failure is not None:
            raise failure
        waits = [until_available(replicas.pods.values(), replicas.min_ready, replicas.now)]
        return min((wait for wait in (*waits, None if is_whole else _CLAIMS) if wait is not None), default=None)

    def _view(self, owner: Object, current: Object, update: Object) -> Replicas:
        pods = self._adoption.of(owner, _selector(owner))
        return Replicas.of(owner, key_of(current)[1], key_of(update)[1], pods, self._time.now())

    async def _carry_out(self, replicas: Replicas, next_: Plan, revisions: dict[str, Object]) -> bool:
        """Creates, updates and deletes pods by the plan. Returns False if a pod waits for a terminating claim."""
        owner, waiting = replicas.stateful_set, []

        async def create(number: int) -> None:
            revision = replicas.revision_for(number)
            made = identity.pod(owner, number, template_of(revisions[revision]), revision)
            if await self._claims.ensure(owner, key_of(made)[1]):
                await self._control.create(owner, lambda: made, names=1)
            else:
                waiting.append(number)

        for pod in next_.ended:
            reason = "RecreatingFailedPod" if phase_of(pod) == "Failed" else "RecreatingTerminatedPod"
            text = f"StatefulSet {'/'.join(key_of(owner))} is recreating {phase_of(pod).lower()} Pod {key_of(pod)[1]}"
            self._events.warning(owner, reason, text)
        for pod, number in next_.label:
            body = {"metadata": {"uid": uid_of(pod), "labels": identity.labels(owner, number)}}
            self._control.keep(owner, await self._client.patch(PODS, key_of(pod)[1], body, namespace=key_of(pod)[0]))
        await slow_start(create, next_.create)
        await in_batches(lambda pod: self._control.delete(owner, pod), next_.delete)
        return not waiting


def _selector(stateful_set: Object) -> Matcher:
    return from_object(stateful_set["spec"]["selector"])
