"""ObjectWaits: the pods that wait for single objects of any kind, by these objects."""

from __future__ import annotations

from collections.abc import Iterable

from dray.scheduling.model.reasons import ObjectRef


class ObjectWaits:
    """An index in both directions: pods by object, and objects by pod uid."""

    def __init__(self) -> None:
        self._pods: dict[ObjectRef, set[str]] = {}
        self._objects: dict[str, tuple[ObjectRef, ...]] = {}

    def objects(self, uid: str) -> tuple[ObjectRef, ...]:
        return self._objects.get(uid, ())

    def pods(self, waited_for: ObjectRef) -> tuple[str, ...]:
        return tuple(self._pods.get(waited_for, ()))

    def set(self, uid: str, objects: tuple[ObjectRef, ...]) -> None:
        """Notes that the pod waits for these objects and no others."""
        if self.objects(uid) == objects:
            return
        self.remove(uid)
        if objects:
            self._objects[uid] = objects
        for waited_for in objects:
            self._pods.setdefault(waited_for, set()).add(uid)

    def add(self, uid: str, objects: Iterable[ObjectRef]) -> None:
        known = self.objects(uid)
        self.set(uid, (*known, *(waited_for for waited_for in objects if waited_for not in known)))

    def remove(self, uid: str) -> None:
        for waited_for in self._objects.pop(uid, ()):
            uids = self._pods.get(waited_for)
            if uids is not None:
                uids.discard(uid)
                if not uids:
                    del self._pods[waited_for]
