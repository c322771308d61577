"""Writes of controllers on the pods of a workload, each idempotent, and their events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from dray.api.objects import Object
from dray.client.clock import timestamp
from dray.client.errors import AlreadyExists, ApiError, ClientError, Conflict, NotFound
from dray.controllers.environment import Environment
from dray.controllers.kinds import PODS
from dray.controllers.workloads.own_writes import OwnWrites

_NAMES: Final = 4


class PodControl:
    """Creates and deletes the pods of an owner; remembers the results in `written` under the owner's uid."""

    def __init__(self, environment: Environment, written: OwnWrites) -> None:
        self._client = environment.client
        self._events = environment.events
        self._time = environment.time
        self._written = written

    async def create(self, owner: Object, make: Callable[[], Object], *, names: int = _NAMES) -> Object:
        """Creates a pod. Calls `make` again if the generated name is taken, up to `names` times."""
        try:
            made = await self._create(make, names)
        except ClientError as error:
            if not (isinstance(error, ApiError) and error.is_namespace_ending):
                self._events.warning(owner, "FailedCreate", f"Error creating: {error}")
            raise
        self.keep(owner, made)
        self._events.normal(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return made

    async def _create(self, make: Callable[[], Object], names: int) -> Object:
        while True:
            names -= 1
            body = make()
            try:
                return await self._client.create(PODS, body, namespace=body["metadata"]["namespace"])
            except AlreadyExists:
                if names <= 0:
                    raise

    async def delete(self, owner: Object, pod: Object) -> None:
        after = pod
        try:
            answer = await self._client.delete_object(PODS, pod)
        except ApiError as error:
            if not is_gone(error):
                self._events.warning(owner, "FailedDelete", f"Error deleting: {error}")
                raise
        else:
            after = answer if answer.get("kind") == "Pod" else pod
            self._events.normal(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        # Also where the answer only says that it succeeded.
        self.keep(owner, leaving(after, self._time.now()))

    def keep(self, owner: Object, pod: Object) -> None:
        self._written.put(owner["metadata"]["uid"], pod)


def leaving(pod: Object, now: datetime) -> Object:
    """Returns the pod as it is while it is being deleted."""
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        return pod
    return {**pod, "metadata": {**metadata, "deletionTimestamp": timestamp(now)}}


def is_gone(error: ApiError) -> bool:
    """Returns True if the error means that the pod is gone or that another pod has its name."""
    return isinstance(error, NotFound) or (isinstance(error, Conflict) and "UID in precondition" in str(error))
