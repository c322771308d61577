"""The ReplicaSet controller: event handlers and one reconciliation of a ReplicaSet or ReplicationController.

One pass: adopt and release pods, make those that lack or delete those that are too many, write the status. What was
written here counts from then on, whether or not the informer has shown it, so that no pod is made twice.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Key, Object, controller_of, controller_uid, is_deleting, spec_of, uid_of
from dray.api.pods import is_active
from dray.client.cache import Change
from dray.client.errors import ClientError
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import PODS
from dray.controllers.replica_sets.plan import Plan, plan
from dray.controllers.replica_sets.replicated import REPLICA_SET, REPLICATION_CONTROLLER, Replicated
from dray.controllers.replica_sets.status import status
from dray.controllers.workloads import pod_template
from dray.controllers.workloads.adoption import BY_CONTROLLER, Adoption, index_by_controller, selecting
from dray.controllers.workloads.availability import until_available
from dray.controllers.workloads.batches import in_batches, slow_start
from dray.controllers.workloads.own_writes import OwnWrites, follow_owner
from dray.controllers.workloads.pod_control import PodControl

# How often to look whether the informer has come to what was written here.
_CATCH_UP: Final = 5.0
# Pods change in crowds: the more there are, the longer their owner waits for more of that before it counts them all.
_GATHER_PER_POD: Final = 0.0002
_LONGEST_GATHER: Final = 1.0


class ReplicaController(QueueController[Key]):
    """Reconciles the objects of one kind: ReplicaSet or ReplicationController."""

    def __init__(self, environment: Environment, replicated: Replicated) -> None:
        super().__init__(environment)
        self._replicated, self._kind = replicated, replicated.kind
        self._owners = environment.informers.of(self._kind, {BY_CONTROLLER: index_by_controller})
        self._pods = environment.informers.of(PODS, {BY_CONTROLLER: index_by_controller})
        self._written = OwnWrites(self._owners)
        self._written_pods = OwnWrites(self._pods)
        self._gather: dict[str, float] = {}
        """By uid: how many seconds a reconciliation is delayed to gather more pod changes."""
        self._adoption = Adoption(self._client, self._kind, PODS, self._pods, self._written_pods)
        self._control = PodControl(environment, self._written_pods)
        self._workers = environment.workers(replicated.name, self._reconcile, called=named(self._kind.kind))
        self._owners.add_handler(self._on_owner)
        self._pods.add_handler(self._on_pod)

    # What happened

    def _on_owner(self, change: Change) -> None:
        follow_owner(change, self._workers.queue, self._written, self._written_pods)
        if change.type == "DELETED":
            self._gather.pop(uid_of(change.object), None)

    def _on_pod(self, change: Change) -> None:
        if not self._owners.cache:
            return
        pod, before = change.object, change.previous
        owner = self._owner_of(pod)
        if before is not None:
            former = self._owner_of(before)
            if former is not None and (owner is None or owner["uid"] != former["uid"]):
                self._wake(change.key[0], former)
        if owner is not None:
            if change.type == "DELETED":
                self._written_pods.removed(owner["uid"], uid_of(pod))
            self._wake(change.key[0], owner)
        elif change.type != "DELETED" and controller_of(pod) is None:
            for key in selecting(self._owners.cache, pod, self._replicated.selector):
                self._workers.queue.add(key)

    def _owner_of(self, pod: Object) -> Object | None:
        found = controller_of(pod)
        is_it = found is not None and found.get("kind") == self._kind.kind
        return found if is_it and found is not None and found.get("apiVersion") == self._kind.api_version else None

    def _wake(self, namespace: str, reference: Object) -> None:
        self._workers.queue.add_after((namespace, reference["name"]), self._gather.get(reference["uid"], 0.0))

    # One of them

    async def _reconcile(self, key: Key) -> float | None:
        owner = self._written.newest_owner(key, self._kind)
        if owner is None:
            return None
        uid = uid_of(owner)
        selects = self._replicated.selector(owner)
        pods = await self._adoption.settle(owner, selects)
        self._gather[uid] = min(_LONGEST_GATHER, len(pods) * _GATHER_PER_POD)
        failure = None
        if not is_deleting(owner):
            next_ = plan(owner, pods, self._kin(owner), self._time.now())
            failure = await self._carry_out(owner, next_)
            pods = self._adoption.of(owner, selects)
        await self._write_status(owner, pods, failure)
        if failure is not None:
            raise failure[1]
        waits = [until_available(filter(is_active, pods), _min_ready(owner), self._time.now())]
        if self._written_pods.pending(uid):
            waits.append(_CATCH_UP)
        return min((wait for wait in waits if wait is not None), default=None)

    def _kin(self, owner: Object) -> list[Object]:
        """Returns the pods of all owners with the same controller: all revisions of a Deployment."""
        uid = controller_uid(owner)
        siblings = self._owners.cache.by(BY_CONTROLLER, uid) if uid else []
        return [pod for sibling in siblings for pod in self._pods.cache.by(BY_CONTROLLER, uid_of(sibling))]

    async def _carry_out(self, owner: Object, next_: Plan) -> tuple[str, ClientError] | None:
        """Creates and deletes pods by the plan. Returns the event reason and the error of a failed write."""
        template = spec_of(owner).get("template") or {}

        async def create(_: int) -> None:
            await self._control.create(owner, lambda: pod_template.pod(owner, self._kind, template))

        async def delete(pod: Object) -> None:
            await self._control.delete(owner, pod)

        try:
            await slow_start(create, range(next_.create))
            await in_batches(delete, next_.delete)
        except ClientError as error:
            return "FailedCreate" if next_.create else "FailedDelete", error
        return None

    async def _write_status(self, owner: Object, pods: list[Object], failure: tuple[str, ClientError] | None) -> None:
        found = status(owner, pods, failure, self._time.now(), self._replicated)
        if owner.get("status") != found:
            self._written.put(uid_of(owner), await self._client.update_status(self._kind, {**owner, "status": found}))


def _min_ready(owner: Object) -> int:
    return spec_of(owner).get("minReadySeconds") or 0


class ReplicaSetController(ReplicaController):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment, REPLICA_SET)


class ReplicationControllerController(ReplicaController):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment, REPLICATION_CONTROLLER)
