"""The controllers `persistentvolumeclaim-protection` and `persistentvolume-protection`.

What is deleted stays, by a finalizer, until nobody uses it: a claim until no pod on a node names it that has not ended,
a volume until it is no longer bound. An object that lacks the finalizer gets it.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Key, Object, finalizers_of, is_deleting, key_of, status_of
from dray.api.pods import is_done, node_of
from dray.api.volumes import CLAIM_FINALIZER, VOLUME_FINALIZER, claims_of
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.interface import Resource
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import CLAIMS_FOR_VOLUMES, PODS, VOLUMES

_BY_CLAIM: Final = "claim for a volume"


async def _protect(client: ApiClient, resource: Resource, obj: Object, finalizer: str, *, used: bool) -> None:
    finalizers = finalizers_of(obj)
    if is_deleting(obj):
        if used or finalizer not in finalizers:
            return
        wanted = [present for present in finalizers if present != finalizer]
    elif finalizer in finalizers:
        return
    else:
        wanted = [*finalizers, finalizer]
    await client.update(resource, {**obj, "metadata": {**obj["metadata"], "finalizers": wanted}})


class ClaimProtection(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers(
            "claim protection", self.reconcile, called=named("PersistentVolumeClaim"), count=2
        )
        self._claims = environment.informers.of(CLAIMS_FOR_VOLUMES)
        self._pods = environment.informers.of(PODS, {_BY_CLAIM: _claims})
        self._claims.add_handler(self._claim_changed)
        self._pods.add_handler(self._pod_changed)

    def _claim_changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._workers.queue.add(change.key)

    def _pod_changed(self, change: Change) -> None:
        if change.type == "DELETED" or is_done(change.object):
            for key, _ in claims_of(change.object):
                self._workers.queue.add(key)

    async def reconcile(self, key: Key) -> float | None:
        claim = self._claims.cache.get(key[1], namespace=key[0])
        if claim is not None:
            # A pod without a node waits for the claim, and would wait for ever for one that waits for the pod.
            pods = self._pods.cache.by(_BY_CLAIM, "/".join(key))
            used = any(bool(node_of(pod)) and not is_done(pod) for pod in pods)
            await _protect(self._client, CLAIMS_FOR_VOLUMES, claim, CLAIM_FINALIZER, used=used)
        return None


def _claims(pod: Object) -> list[str]:
    return ["/".join(key) for key, _ in claims_of(pod)]


class VolumeProtection(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers(
            "volume protection", self.reconcile, called=named("PersistentVolume"), count=2
        )
        self._volumes = environment.informers.of(VOLUMES)
        self._volumes.add_handler(self._volume_changed)

    def _volume_changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._workers.queue.add(key_of(change.object))

    async def reconcile(self, key: Key) -> float | None:
        volume = self._volumes.cache.get(key[1])
        if volume is not None:
            used = status_of(volume).get("phase") == "Bound"
            await _protect(self._client, VOLUMES, volume, VOLUME_FINALIZER, used=used)
        return None
