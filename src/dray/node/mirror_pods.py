"""Mirror pods: what the API server shows of static pods.

Each static pod has a mirror of the same name. Deleting a mirror deletes nothing but itself, and it comes back; one
whose file is gone, or whose file says something else by now, is deleted. Failures are retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Key, Object, annotations_of, is_deleting, key_of, metadata_of, uid_of
from dray.api.pods import HASH_ANNOTATION as HASH
from dray.api.pods import MIRROR_ANNOTATION as MIRROR
from dray.client.api import ApiClient
from dray.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from dray.client.interface import DeleteOptions, WriteOptions

PODS: Final = built_in("v1", "Pod")
_MANAGER: Final = WriteOptions("dray-node")
_RETRY: Final = 2.0
_logger = logging.getLogger(__name__)


def is_mirror(pod: Object) -> bool:
    return MIRROR in annotations_of(pod)


class MirrorPods:
    """Keeps the mirror pods at the API server; `node` returns the Node object that owns them."""

    def __init__(self, client: ApiClient, node: Callable[[], Object]) -> None:
        self._client = client
        self._node = node
        self._static: Mapping[Key, Object] = {}
        self._mirrors: dict[Key, Object] = {}
        self._dirty = asyncio.Event()

    def want(self, pods: Mapping[Key, Object]) -> None:
        """Sets the static pods that need mirrors, by namespace and name."""
        self._static = pods
        self._dirty.set()

    def seen(self, mirror: Object, *, deleted: bool) -> None:
        """Records that a mirror at the API server was changed or deleted."""
        if deleted:
            self._mirrors.pop(key_of(mirror), None)
        else:
            self._mirrors[key_of(mirror)] = mirror
        self._dirty.set()

    def of(self, pod: Object) -> Object | None:
        """Returns the mirror of a static pod; None if there is none for its present manifest."""
        mirror = self._mirrors.get(key_of(pod))
        return mirror if mirror is not None and _mirrors(mirror, pod) else None

    async def run(self) -> None:
        """Creates and deletes mirrors until it is cancelled. Call it once the pods of the API server are known."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                for key in list(self._wrong()):
                    await self._mend(key)
            except ClientError as error:
                _logger.warning("mirror pods: %s", error)
                await asyncio.sleep(_RETRY)
                self._dirty.set()

    def _wrong(self) -> Iterator[Key]:
        for key in {*self._static, *self._mirrors}:
            pod, mirror = self._static.get(key), self._mirrors.get(key)
            if pod is None or mirror is None or not _mirrors(mirror, pod):
                yield key

    async def _mend(self, key: Key) -> None:
        mirror, pod = self._mirrors.get(key), self._static.get(key)
        if mirror is not None:
            options = DeleteOptions(uid=uid_of(mirror), grace_period=0)
            with suppress(NotFound, Conflict):
                await self._client.delete(PODS, key[1], namespace=key[0], options=options)
        elif pod is not None:
            with suppress(AlreadyExists):
                await self._client.create(PODS, self._mirror(pod), namespace=key[0], options=_MANAGER)

    def _mirror(self, pod: Object) -> Object:
        metadata, node = metadata_of(pod), metadata_of(self._node())
        kept: Object = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
        annotations = annotations_of(pod)
        owner: Object = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"]}
        kept["ownerReferences"] = [{**owner, "controller": True}]
        kept["annotations"] = {**annotations, MIRROR: annotations[HASH]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": pod["spec"]}


def _mirrors(mirror: Object, pod: Object) -> bool:
    """Returns True if the mirror shows the pod's present manifest and is not being deleted."""
    return not is_deleting(mirror) and annotations_of(mirror).get(MIRROR) == annotations_of(pod)[HASH]
