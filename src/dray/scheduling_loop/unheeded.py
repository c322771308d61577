"""Unheeded: a warning event for members of other systems' objects that nobody acts on, once for each version of one."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.catalogue import KindVersion
from dray.api.objects import Object
from dray.client.discovery import ServedResource
from dray.client.events import EventRecorder


class Unheeded:
    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._told: dict[str, tuple[int, tuple[str, ...]]] = {}
        """By uid, the generation of an object that was told, and what."""

    def warn(self, resource: KindVersion | ServedResource, document: Object, members: Iterable[str]) -> None:
        metadata = document["metadata"]
        uid, found = str(metadata.get("uid")), tuple(members)
        told, self._told[uid] = self._told.get(uid), (int(metadata.get("generation") or 0), found)
        if found and told != self._told[uid]:
            about = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
            self._events.warning(about, "NotActedUpon", f"ignored by this scheduler: {', '.join(found)}")

    def forget(self, document: Object) -> None:
        self._told.pop(str(document["metadata"].get("uid")), None)
