"""Adoption of objects by the owner whose selector selects them, and their release when it no longer does.

Of the objects that an owner controls those are its own that it selects. One that is selected and has no controller is
adopted; one that is no longer selected is released, so that somebody can keep a pod to look into it while its owner
makes another. Both are patches of the object as it was seen: who comes first has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.api.catalogue import KindVersion
from dray.api.label_selectors import Matcher
from dray.api.objects import Key, Object, controller_of, is_deleting, key_of, labels_of, uid_of
from dray.client.api import ApiClient
from dray.client.cache import Cache
from dray.client.errors import NotFound
from dray.client.informer import Informer
from dray.client.interface import PatchType
from dray.controllers.workloads.own_writes import OwnWrites
from dray.controllers.workloads.pod_template import reference

BY_CONTROLLER: Final = "controller"
"""Index of objects by the uid of their controller; objects without one are indexed by namespace."""
_NOBODYS: Final = "nobody's in "


def index_by_controller(obj: Object) -> list[str]:
    owner = controller_of(obj)
    if owner is not None:
        return [str(owner.get("uid"))]
    metadata = obj["metadata"]
    return [_NOBODYS + str(metadata.get("namespace"))] if metadata.get("labels") else []


class Adoption:
    """Adopts and releases objects of the kind `owned` for owners of the kind `owner`.

    `finalizer` is added to adopted objects and removed on release. `fits(owner, object)` can refuse an object that the
    selector selects. The informer must have the index `BY_CONTROLLER`.
    """

    def __init__(
        self,
        client: ApiClient,
        owner: KindVersion,
        owned: KindVersion,
        informer: Informer,
        written: OwnWrites,
        *,
        finalizer: str = "",
        fits: Callable[[Object, Object], bool] = lambda owner, obj: True,
    ) -> None:
        self._client = client
        self._owner = owner
        self._owned = owned
        self._cache = informer.cache
        self._written = written
        self._finalizer = finalizer
        self._fits = fits

    def of(self, owner: Object, selects: Matcher) -> list[Object]:
        """Returns the owner's objects at their newest version."""
        uid = uid_of(owner)
        return [obj for obj in self.controlled(uid) if selects(labels_of(obj)) and _is_controlled(obj, uid)]

    def controlled(self, uid: str) -> list[Object]:
        """Returns the objects whose controller is the owner, including those that were just released."""
        return self._written.newest(uid, self._cache.by(BY_CONTROLLER, uid))

    async def settle(self, owner: Object, selects: Matcher) -> list[Object]:
        """Adopts and releases, unless the owner is terminating. Returns the owner's objects."""
        if is_deleting(owner):
            return self.of(owner, selects)
        uid, namespace = uid_of(owner), owner["metadata"]["namespace"]
        controlled = self.controlled(uid)
        for obj in controlled:
            if not selects(labels_of(obj)) and _is_controlled(obj, uid):
                await self._release(uid, obj)
        known = {uid_of(obj) for obj in controlled if _is_controlled(obj, uid)}
        found = [
            obj
            for obj in self._cache.by(BY_CONTROLLER, _NOBODYS + namespace)
            if selects(labels_of(obj)) and not is_deleting(obj) and uid_of(obj) not in known and self._fits(owner, obj)
        ]
        if found and await self._stands(owner):
            for obj in found:
                await self._adopt(owner, obj)
        return self.of(owner, selects)

    async def _stands(self, owner: Object) -> bool:
        """Asks the server whether the owner still exists and is not terminating: it must not adopt objects then."""
        metadata = owner["metadata"]
        try:
            live = await self._client.get(self._owner, metadata["name"], namespace=metadata["namespace"])
        except NotFound:
            return False
        return uid_of(live) == metadata["uid"] and not is_deleting(live)

    async def _adopt(self, owner: Object, obj: Object) -> None:
        change: Object = {"ownerReferences": [reference(owner, self._owner)]}
        if self._finalizer:
            change["finalizers"] = [self._finalizer]
        await self._patch(uid_of(owner), obj, change)

    async def _release(self, uid: str, obj: Object) -> None:
        change: Object = {"ownerReferences": [{"$patch": "delete", "uid": uid}]}
        if self._finalizer:
            change["$deleteFromPrimitiveList/finalizers"] = [self._finalizer]
        await self._patch(uid, obj, change)

    async def _patch(self, uid: str, obj: Object, change: Object) -> None:
        metadata = obj["metadata"]
        pin = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body, (namespace, name) = {"metadata": {**pin, **change}}, key_of(obj)
        try:
            after = await self._client.patch(
                self._owned, name, body, namespace=namespace, patch_type=PatchType.STRATEGIC
            )
        except NotFound:
            return
        self._written.put(uid, after)


def _is_controlled(obj: Object, uid: str) -> bool:
    owner = controller_of(obj)
    return owner is not None and owner.get("uid") == uid


def selecting(owners: Cache, obj: Object, selector: Callable[[Object], Matcher | None]) -> list[Key]:
    """Returns the owners that would adopt an object; owners whose `selector` is None adopt nothing."""
    labels, (namespace, _) = labels_of(obj), key_of(obj)
    if not labels or controller_of(obj) is not None or is_deleting(obj):
        return []
    found = ((owner, selector(owner)) for owner in owners.in_namespace(namespace) if not is_deleting(owner))
    return [key_of(owner) for owner, selects in found if selects is not None and selects(labels)]
