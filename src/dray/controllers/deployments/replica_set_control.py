"""Writes of the Deployment controller on ReplicaSets, and their events."""

from __future__ import annotations

from dray.api.objects import Object, annotations_of, spec_of, uid_of
from dray.client.errors import AlreadyExists, NotFound
from dray.controllers.deployments import revisions, template
from dray.controllers.deployments.revisions import DESIRED, MOST
from dray.controllers.deployments.rolling import Bounds, Sizes, size
from dray.controllers.environment import Environment
from dray.controllers.kinds import REPLICA_SETS
from dray.controllers.workloads.own_writes import OwnWrites


class NameTaken(Exception):
    """Another ReplicaSet has the name that is derived from the template's hash."""


class ReplicaSetControl:
    """Creates, updates and deletes ReplicaSets; remembers the results in `written` under the uid of the Deployment."""

    def __init__(self, environment: Environment, written: OwnWrites) -> None:
        self._client = environment.client
        self._events = environment.events
        self._written = written

    async def create(self, deployment: Object, revision: int, replicas: int) -> tuple[Object, bool]:
        """Returns the newest ReplicaSet and whether this call created it. Raises NameTaken."""
        annotations = {**revisions.annotations_for(deployment, {}, revision), **_numbers(deployment)}
        body = template.replica_set(deployment, annotations, replicas)
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        try:
            made = await self._client.create(REPLICA_SETS, body, namespace=namespace)
        except AlreadyExists as error:
            found = await self._client.get(REPLICA_SETS, name, namespace=namespace)
            if not _is_same(deployment, found):
                raise NameTaken(name) from error
            self._keep(deployment, found)
            return found, False
        self._keep(deployment, made)
        if replicas:
            self._events.normal(deployment, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {replicas}")
        return made, True

    async def renew(self, deployment: Object, replica_set: Object, revision: int) -> Object:
        """Updates annotations, revision and minReadySeconds of the newest ReplicaSet."""
        annotations = revisions.annotations_for(deployment, replica_set, revision)
        min_ready = spec_of(deployment).get("minReadySeconds") or 0
        is_due = min_ready != (spec_of(replica_set).get("minReadySeconds") or 0)
        if annotations == annotations_of(replica_set) and not is_due:
            return replica_set
        spec = {**replica_set["spec"], "minReadySeconds": min_ready}
        return await self._update(deployment, replica_set, spec, annotations)

    async def scale(self, deployment: Object, sizes: Sizes) -> bool:
        """Whether any of them got another size."""
        is_any = False
        for replica_set, replicas in sizes:
            before = size(replica_set)
            annotations = {**annotations_of(replica_set), **_numbers(deployment)}
            if before == replicas and annotations == annotations_of(replica_set):
                continue
            await self._update(deployment, replica_set, {**replica_set["spec"], "replicas": replicas}, annotations)
            if before == replicas:
                continue
            is_any, direction = True, "up" if before < replicas else "down"
            name = replica_set["metadata"]["name"]
            message = f"Scaled {direction} replica set {name} from {before} to {replicas}"
            self._events.normal(deployment, "ScalingReplicaSet", message)
        return is_any

    async def delete(self, replica_set: Object) -> None:
        try:
            await self._client.delete_object(REPLICA_SETS, replica_set)
        except NotFound:
            return

    async def _update(self, deployment: Object, replica_set: Object, spec: Object, annotations: Object) -> Object:
        metadata = {**replica_set["metadata"], "annotations": annotations}
        after = await self._client.update(REPLICA_SETS, {**replica_set, "metadata": metadata, "spec": spec})
        self._keep(deployment, after)
        return after

    def _keep(self, deployment: Object, replica_set: Object) -> None:
        self._written.put(uid_of(deployment), replica_set)


def _numbers(deployment: Object) -> dict[str, str]:
    """Returns the size annotations of a ReplicaSet; they show later that the Deployment was scaled."""
    bounds = Bounds.of(deployment)
    return {DESIRED: str(bounds.replicas), MOST: str(bounds.most)}


def _is_same(deployment: Object, found: Object) -> bool:
    """Returns True if the existing ReplicaSet is the wanted one, made by an earlier pass whose answer was lost."""
    owners = [
        reference.get("uid")
        for reference in found["metadata"].get("ownerReferences") or ()
        if reference.get("controller")
    ]
    is_own = owners == [uid_of(deployment)]
    return is_own and revisions.same_template(found["spec"]["template"], deployment["spec"]["template"])
