"""The Deployment controller: event handlers and one reconciliation of a Deployment.

One pass: adopt and release ReplicaSets, find or make the newest, change the size of one or a few, write the status. The
next pass comes when their pods have followed. Whatever a pass finds half done it goes on with.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from dray.api.objects import Key, Object, annotations_of, condition_of, controller_of, is_deleting, status_of, uid_of
from dray.api.pods import is_terminal
from dray.client.cache import Change
from dray.client.clock import timestamp
from dray.client.errors import ApiError, ClientError
from dray.controllers.deployments import conditions, revisions, rolling
from dray.controllers.deployments import status as statuses
from dray.controllers.deployments.conditions import PROGRESSING, condition
from dray.controllers.deployments.replica_set_control import NameTaken, ReplicaSetControl
from dray.controllers.deployments.revisions import REVISION
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from dray.controllers.replica_sets.replicated import selector_of
from dray.controllers.workloads.adoption import BY_CONTROLLER, Adoption, index_by_controller, selecting
from dray.controllers.workloads.own_writes import OwnWrites, follow_owner

# How often to look whether the informer has come to what was written here.
_CATCH_UP: Final = 5.0
_SELECTING_ALL: Final = "This deployment is selecting all pods. A non-empty selector is required."
_Judge = Callable[[Object, list[Object], Object | None, datetime], Object]


class DeploymentController(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        indexes = {BY_CONTROLLER: index_by_controller}
        self._deployments = environment.informers.of(DEPLOYMENTS)
        self._replica_sets = environment.informers.of(REPLICA_SETS, indexes)
        self._pods = environment.informers.of(PODS, indexes)
        self._written = OwnWrites(self._deployments)
        written = self._written_sets = OwnWrites(self._replica_sets)
        self._adoption = Adoption(self._client, DEPLOYMENTS, REPLICA_SETS, self._replica_sets, written)
        self._control = ReplicaSetControl(environment, written)
        self._workers = environment.workers("deployment", self._reconcile, called=named("Deployment"))
        self._deployments.add_handler(self._on_deployment)
        self._replica_sets.add_handler(self._on_replica_set)
        self._pods.add_handler(self._on_pod)

    # What happened

    def _on_deployment(self, change: Change) -> None:
        follow_owner(change, self._workers.queue, self._written, self._written_sets)

    def _on_replica_set(self, change: Change) -> None:
        owner = _deployment_of(change.object)
        former = _deployment_of(change.previous) if change.previous is not None else None
        if former is not None and (owner is None or owner["uid"] != former["uid"]):
            self._workers.queue.add((change.key[0], former["name"]))
        if owner is not None:
            if change.type == "DELETED":
                self._written_sets.removed(owner["uid"], uid_of(change.object))
            self._workers.queue.add((change.key[0], owner["name"]))
        elif change.type != "DELETED":
            for key in selecting(self._deployments.cache, change.object, selector_of):
                self._workers.queue.add(key)

    def _on_pod(self, change: Change) -> None:
        """Queues a Deployment with the strategy Recreate when one of its pods was deleted: it waits for that."""
        reference = controller_of(change.object) if change.type == "DELETED" else None
        if reference is None or reference.get("kind") != REPLICA_SETS.kind:
            return
        replica_set = self._replica_sets.cache.get(reference["name"], namespace=change.key[0])
        owner = _deployment_of(replica_set) if replica_set is not None else None
        if owner is not None:
            deployment = self._deployments.cache.get(owner["name"], namespace=change.key[0])
            if deployment is not None and not rolling.is_rolling(deployment):
                self._workers.queue.add((change.key[0], owner["name"]))

    # Deployments

    async def _reconcile(self, key: Key) -> float | None:
        deployment = self._written.newest_owner(key, DEPLOYMENTS)
        if deployment is None:
            return None
        if not any(deployment["spec"]["selector"].values()):
            self._events.warning(deployment, "SelectingAll", _SELECTING_ALL)
            return None
        sets = await self._adoption.settle(deployment, selector_of(deployment))
        if is_deleting(deployment):
            return await self._conclude(deployment, statuses.observed)
        deployment = await self._note_pause(deployment)
        if deployment["spec"].get("paused") or rolling.is_scaled(deployment, sets):
            return await self._scale(deployment)
        try:
            if rolling.is_rolling(deployment):
                return await self._roll(deployment)
            return await self._recreate(deployment)
        except NameTaken:
            await self._count_collision(deployment)
            return 0.0

    def _sets(self, deployment: Object) -> tuple[Object | None, list[Object]]:
        """Returns the newest ReplicaSet, None if it does not exist, and the others."""
        found = self._adoption.of(deployment, selector_of(deployment))
        new = revisions.newest(deployment, found)
        return new, [replica_set for replica_set in found if new is None or uid_of(replica_set) != uid_of(new)]

    async def _scale(self, deployment: Object) -> float | None:
        """Scales a Deployment that is paused or was resized, without a roll-out."""
        deployment = await self._revise(deployment)
        new, old = self._sets(deployment)
        await self._control.scale(deployment, rolling.scaled_sizes(deployment, old, new))
        if deployment["spec"].get("paused"):
            await self._clean_up(deployment)
        return await self._conclude(deployment, statuses.observed)

    async def _roll(self, deployment: Object) -> float | None:
        deployment = await self._revise(deployment, create=True)
        new, old = self._sets(deployment)
        if new is not None:
            target = rolling.new_size(deployment, [*old, new], new)
            if not (target != rolling.size(new) and await self._control.scale(deployment, [(new, target)])):
                await self._control.scale(deployment, rolling.old_sizes(deployment, old, new))
        return await self._finish(deployment)

    async def _recreate(self, deployment: Object) -> float | None:
        deployment = await self._revise(deployment)
        new, old = self._sets(deployment)
        running = rolling.active(old)
        if running:
            await self._control.scale(deployment, [(replica_set, 0) for replica_set in running])
        elif not self._has_pods(old):
            deployment = await self._revise(deployment, create=True)
            new, _ = self._sets(deployment)
            if new is not None and rolling.size(new) != rolling.size(deployment):
                await self._control.scale(deployment, [(new, rolling.size(deployment))])
        return await self._finish(deployment)

    def _has_pods(self, replica_sets: list[Object]) -> bool:
        if rolling.counted(replica_sets, "replicas"):
            return True
        pods = (pod for replica_set in replica_sets for pod in self._pods.cache.by(BY_CONTROLLER, uid_of(replica_set)))
        return not all(map(is_terminal, pods))

    async def _finish(self, deployment: Object) -> float | None:
        if statuses.is_complete(deployment, status_of(deployment)):
            await self._clean_up(deployment)
        return await self._conclude(deployment, statuses.rolled_out)

    async def _clean_up(self, deployment: Object) -> None:
        for replica_set in revisions.surplus(deployment, self._sets(deployment)[1]):
            await self._control.delete(replica_set)

    # Revisions

    async def _revise(self, deployment: Object, *, create: bool = False) -> Object:
        """Numbers the newest ReplicaSet, which is made if that is asked for; the Deployment then."""
        new, old = self._sets(deployment)
        revision, now = revisions.next_revision(old), timestamp(self._time.now())
        if new is not None:
            new = await self._control.renew(deployment, new, revision)
            name = new["metadata"]["name"]
            told = condition(PROGRESSING, "True", conditions.NEW_SET_FOUND, f'Found new replica set "{name}"', now)
            return await self._number(deployment, new, told if condition_of(deployment, PROGRESSING) is None else None)
        if not create:
            return deployment
        try:
            made, is_new = await self._control.create(deployment, revision, rolling.new_size(deployment, old, None))
        except ClientError as error:
            await self._tell_failure(deployment, error)
            raise
        name = made["metadata"]["name"]
        told = condition(PROGRESSING, "True", conditions.NEW_SET_CREATED, f'Created new replica set "{name}"', now)
        return await self._number(deployment, made, told if is_new else None)

    async def _number(self, deployment: Object, new: Object, told: Object | None) -> Object:
        """Writes the revision of the newest ReplicaSet to the Deployment, and the condition if progress is watched."""
        annotations, status = annotations_of(deployment), status_of(deployment)
        # Admission may have taken it from the set: the next look gives it one.
        revision = annotations_of(new).get(REVISION)
        numbered = {**annotations, REVISION: revision} if revision else annotations
        if told is not None and statuses.deadline_of(deployment) is not None:
            status = {**status, "conditions": conditions.put(status.get("conditions") or [], told)}
        if numbered == annotations and status == status_of(deployment):
            return deployment
        metadata = {**deployment["metadata"], "annotations": numbered}
        return await self._write({**deployment, "metadata": metadata, "status": status})

    async def _tell_failure(self, deployment: Object, error: ClientError) -> None:
        if isinstance(error, ApiError) and error.is_namespace_ending:
            return
        message = f"Failed to create new replica set: {error}"
        self._events.warning(deployment, conditions.SET_CREATE_ERROR, message)
        if statuses.deadline_of(deployment) is not None:
            now = timestamp(self._time.now())
            told = condition(PROGRESSING, "False", conditions.SET_CREATE_ERROR, message, now)
            await self._put_condition(deployment, told)

    async def _count_collision(self, deployment: Object) -> None:
        (newest,) = self._written.newest(uid_of(deployment), [deployment])
        status = status_of(newest)
        count = (status.get("collisionCount") or 0) + 1
        await self._write({**newest, "status": {**status, "collisionCount": count}})

    # The status

    async def _note_pause(self, deployment: Object) -> Object:
        """Sets the Progressing condition to paused or resumed: no progress is expected during a pause."""
        present = condition_of(deployment, PROGRESSING) or {}
        if statuses.deadline_of(deployment) is None or present.get("reason") == conditions.TIMED_OUT:
            return deployment
        was_paused, is_paused = present.get("reason") == conditions.PAUSED, bool(deployment["spec"].get("paused"))
        if was_paused == is_paused:
            return deployment
        reason, message = conditions.RESUMED, "Deployment is resumed"
        if is_paused:
            reason, message = conditions.PAUSED, "Deployment is paused"
        now = timestamp(self._time.now())
        return await self._put_condition(deployment, condition(PROGRESSING, "Unknown", reason, message, now))

    async def _put_condition(self, deployment: Object, told: Object) -> Object:
        status = status_of(deployment)
        listed = conditions.put(status.get("conditions") or [], told)
        if listed == status.get("conditions"):
            return deployment
        return await self._write({**deployment, "status": {**status, "conditions": listed}})

    async def _conclude(self, deployment: Object, judge: _Judge) -> float | None:
        new, old = self._sets(deployment)
        now = self._time.now()
        found = judge(deployment, [*old, new] if new is not None else old, new, now)
        if found != deployment.get("status"):
            deployment = await self._write({**deployment, "status": found})
        waits = [statuses.until_deadline(deployment, now)] if judge is statuses.rolled_out else []
        if self._written_sets.pending(uid_of(deployment)):
            waits.append(_CATCH_UP)
        return min((wait for wait in waits if wait is not None), default=None)

    async def _write(self, deployment: Object) -> Object:
        after = await self._client.update_status(DEPLOYMENTS, deployment)
        self._written.put(uid_of(deployment), after)
        return after


def _deployment_of(replica_set: Object) -> Object | None:
    found = controller_of(replica_set)
    return found if found is not None and found.get("kind") == DEPLOYMENTS.kind else None
