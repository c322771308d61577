"""Plays steps of a story: objects go in as a client writes them and are kept as a server would."""

from typing import Any

from dray.api import catalogue, schema
from dray.api.objects import Object
from dray.server.fieldmanager import server_side
from dray.server.fieldmanager.tracked_kinds import TrackedKind, built_in

NOW = "2026-01-01T00:00:00Z"


class Told:
    """One object and what becomes of it."""

    def __init__(self, api_version: str, kind: str, tracked: TrackedKind | None = None) -> None:
        target = catalogue.find(api_version, kind)
        self.identity = {"apiVersion": api_version, "kind": kind}
        self._schema = target.schema if target else ""
        if tracked is None:
            assert target is not None
            tracked = built_in(target)
        self.kind = tracked
        self.live: Object | None = None

    def whole(self, document: Object) -> Object:
        metadata = {"name": "x", **document.get("metadata", {})}
        return {**self.identity, **document, "metadata": metadata}

    def _kept(self, document: Object) -> Object:
        if not self._schema:
            return document
        return schema.write(schema.read(document, self._schema)[0], self._schema)

    def exist(self, document: Object) -> None:
        self.live = self._kept(self.whole(document))

    def apply(self, document: Object, manager: str, now: str = NOW, **options: Any) -> Object:
        self.live = self._kept(
            server_side.apply(self.live, self.whole(document), manager, kind=self.kind, now=now, **options)
        )
        return self.live

    def update(self, document: Object, manager: str, now: str = NOW, subresource: str = "") -> Object:
        new = self._kept(self.whole(document))
        entries = server_side.track_update(self.live, new, manager, kind=self.kind, now=now, subresource=subresource)
        rest = {name: value for name, value in new["metadata"].items() if name != "managedFields"}
        new["metadata"] = {**rest, **({"managedFields": entries} if entries else {})}
        self.live = new
        return new

    @property
    def fields(self) -> dict[str, Any]:
        assert self.live is not None
        found = {}
        for entry in self.live["metadata"].get("managedFields", []):
            subresource = f"/{entry['subresource']}" if "subresource" in entry else ""
            found[f"{entry['manager']}/{entry['operation']}{subresource}"] = entry["fieldsV1"]
        return found
