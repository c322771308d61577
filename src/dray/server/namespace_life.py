"""The end of a namespace: once it is terminating, what is in it is deleted, and then the namespace itself.

In Kubernetes a controller does this; here it is the server's own housekeeping. It begins a moment after the deletion,
so that whoever deleted the namespace sees it terminate, and it looks again until nothing is left: a finalizer or a
pod's grace period may take its time.
"""

from __future__ import annotations

import asyncio
import logging

from dray.api.intake import Place
from dray.api.objects import Object
from dray.server import deletion, documents, reads, status, updates
from dray.server.admission.namespaces import FINALIZER
from dray.server.authorization import ADMIN
from dray.server.context import Context
from dray.server.resources import Resource, key_prefix

_log = logging.getLogger("dray.server")
_NAMESPACES = key_prefix("", "namespaces")


class NamespaceLife:
    """`pause` is the time between two looks, in seconds."""

    def __init__(self, context: Context, *, pause: float = 1.0) -> None:
        self._context = context
        self._pause = pause
        self._tasks: dict[str, asyncio.Task[None]] = {}
        context.observe(_NAMESPACES, self._observe)

    def resume(self) -> None:
        """Takes up what a server before this one did not finish."""
        for record in self._context.store.list(_NAMESPACES).records:
            namespace = documents.decode(record.value)
            if namespace["metadata"].get("deletionTimestamp"):
                self._start(namespace["metadata"]["name"])

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if obj is not None and obj["metadata"].get("deletionTimestamp"):
            self._start(obj["metadata"]["name"])

    def _start(self, name: str) -> None:
        if name in self._tasks:
            return
        task = asyncio.get_running_loop().create_task(self._end(name), name=f"end of namespace {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def _end(self, name: str) -> None:
        while True:
            await asyncio.sleep(self._pause)
            try:
                if self._context.namespace(name) is None or await self._empty(name):
                    return
            except Exception:
                _log.exception("namespace %s cannot be emptied yet", name)

    async def _empty(self, name: str) -> bool:
        """Whether the namespace is gone."""
        left = 0
        for resource in list(self._context.registry.stored()):
            if not resource.namespaced:
                continue
            for record in self._context.store.list(reads.list_prefix(resource, name)).records:
                # A store in memory has nothing to wait for: others get their turn here.
                await asyncio.sleep(0)
                left += not await self._delete(resource, name, record.key.rpartition("/")[2])
        if left:
            return False
        namespaces = self._context.registry.find("", "v1", "namespaces")
        assert namespaces is not None
        await updates.modify(self._context, namespaces, Place(name=name), _release)
        return self._context.namespace(name) is None

    async def _delete(self, resource: Resource, namespace: str, name: str) -> bool:
        place = Place(namespace, name)
        try:
            _, gone = await deletion.delete(self._context, resource, place, deletion.DeleteOptions(), ADMIN)
        except status.ApiError as error:
            return error.code == 404
        return gone


def _release(namespace: Object) -> None:
    if not namespace["metadata"].get("deletionTimestamp"):
        return
    namespace["spec"]["finalizers"] = [f for f in namespace["spec"].get("finalizers") or [] if f != FINALIZER]
    if not namespace["spec"]["finalizers"]:
        del namespace["spec"]["finalizers"]
