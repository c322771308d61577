"""Which claims for volumes there are, which volumes and which classes: watched where the server has them.

Where it has no claims, pods do not wait for any; without volumes or classes it is not asked what claims are bound to. A
claim that waits for its first consumer is given the node of its pod, and waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from dray.api.objects import Object, annotations_of, key_of
from dray.api.volumes import SELECTED_NODE, is_bound
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.discovery import may_list, serves, until_answered
from dray.client.errors import ClientError
from dray.client.informer import Informers
from dray.client.interface import GroupVersionResource
from dray.scheduling.cluster.volumes import VolumeClaims
from dray.scheduling.scheduler import Scheduler

CLAIMS: Final = GroupVersionResource("", "v1", "persistentvolumeclaims")
PERSISTENT_VOLUMES: Final = GroupVersionResource("", "v1", "persistentvolumes")
STORAGE_CLASSES: Final = GroupVersionResource("storage.k8s.io", "v1", "storageclasses")
_TIMEOUT: Final = 600.0
_POLL_SECONDS: Final = 2.0


class NotProvisioned(ClientError):
    """A claim for a volume was not bound."""


async def follow(
    client: ApiClient, informers: Informers, scheduler: Scheduler, now: Callable[[], float], wake: Callable[[], None]
) -> None:
    """Returns when the scheduler knows them all; then it is told of every change.

    Without the right to read them it places pods as if there were none to wait for.
    """

    async def watched(kind: str, resource: GroupVersionResource) -> bool:
        plural = resource.plural
        if not await until_answered(lambda: serves(client, resource), plural):
            return False
        if not await until_answered(lambda: may_list(client, resource), plural):
            return False
        informer = informers.of(resource)

        def take(change: Change) -> None:
            (scheduler.remove if change.type == "DELETED" else scheduler.put)(kind, change.object, now())
            wake()

        informer.add_handler(take)
        await informer.synced()
        return True

    known = scheduler.state.volumes
    if await watched("PersistentVolumeClaim", CLAIMS):
        volumes = await watched("PersistentVolume", PERSISTENT_VOLUMES)
        known.volumes_known = volumes and await watched("StorageClass", STORAGE_CLASSES)
        known.known = True


class VolumeWriter:
    def __init__(self, client: ApiClient, known: VolumeClaims, now: Callable[[], float]) -> None:
        self._client = client
        self._known = known
        self._now = now

    async def provision(self, claims: tuple[Object, ...], node: str, is_wanted: Callable[[], bool]) -> None:
        """Gives claims that wait for their first consumer its node, and returns when they are bound."""
        for claim in claims:
            namespace, name = key_of(claim)
            metadata = {"uid": claim["metadata"].get("uid"), "annotations": {SELECTED_NODE: node}}
            await self._client.patch(CLAIMS, name, {"metadata": metadata}, namespace=namespace)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while missing := [claim for claim in claims if not is_bound(self._known.get(key_of(claim)) or claim)]:
            name = missing[0]["metadata"]["name"]
            if loop.time() > began + _TIMEOUT or not is_wanted():
                raise NotProvisioned(f'binding volumes: persistentvolumeclaim "{name}" was not bound in time')
            await asyncio.sleep(min(_POLL_SECONDS, 0.05 + (loop.time() - began) / 10))
            for claim in missing:
                self._check(claim, node, grown=loop.time() > began + _POLL_SECONDS)

    def _check(self, claim: Object, node: str, *, grown: bool) -> None:
        """Whoever provisions volumes takes the node off a claim for which there can be none."""
        now = self._known.get(key_of(claim))
        if now is None:
            raise NotProvisioned(f'persistentvolumeclaim "{claim["metadata"]["name"]}" not found')
        selected = annotations_of(now).get(SELECTED_NODE)
        if grown and not is_bound(now) and selected != node:
            raise NotProvisioned(f'persistentvolumeclaim "{now["metadata"]["name"]}" cannot have a volume on {node}')
