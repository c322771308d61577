"""SnapshotTransport: answers GET requests from a snapshot as the API server of the cluster would.

It serves discovery, lists (with namespaces and field selectors) and single objects. If the server refused to list a
kind for the snapshot, requests for it get the same answer. There are no watches, logs or writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from dray.api.objects import Object, mapping
from dray.client.errors import ConnectionFailed
from dray.client.transport import Answer, Request, Stream
from dray.snapshot.files import ListedKind, StoredObject, StoredSnapshot

_JSON: Final = {"content-type": "application/json"}


class SnapshotTransport:
    watch_seconds = 0.0

    def __init__(self, snapshot: StoredSnapshot) -> None:
        self._snapshot = snapshot
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in snapshot.header.kinds}

    async def send(self, request: Request) -> Answer:
        if request.method != "GET":
            return _status(405, "MethodNotAllowed", "a snapshot cannot be changed")
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        if parts[0] == "api":
            parts = ["apis", "", *parts[1:]]
        match parts:
            case ["apis"] | ["apis", ""]:
                return self._groups(core=parts[1:] == [""])
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["apis", group, version, "namespaces", namespace, plural]:
                return self._list(group, version, plural, namespace, request.query)
            case ["apis", group, version, "namespaces", namespace, plural, name]:
                return self._get(group, version, plural, (namespace, name))
            case ["apis", group, version, plural]:
                return self._list(group, version, plural, "", request.query)
            case ["apis", group, version, plural, name]:
                return self._get(group, version, plural, ("", name))
        return _status(404, "NotFound", f"the snapshot has no {request.path}")

    async def stream(self, request: Request) -> Stream:
        raise ConnectionFailed("a snapshot has no logs and no watches", sent=False)

    async def close(self) -> None:
        pass

    def _groups(self, *, core: bool) -> Answer:
        """Returns the aggregated discovery document: all resources in one list."""
        groups: dict[str, dict[str, list[Object]]] = {}
        for listed in self._snapshot.header.kinds:
            if (listed.group == "") == core:
                scope = "Namespaced" if listed.namespaced else "Cluster"
                found = groups.setdefault(listed.group, {}).setdefault(listed.version, [])
                kind = {"group": listed.group, "version": listed.version, "kind": listed.kind}
                verbs = ["get", "list"]
                found.append({"resource": listed.plural, "responseKind": kind, "scope": scope, "verbs": verbs})
        items = [
            {
                "metadata": {"name": name},
                "versions": [{"version": version, "resources": found} for version, found in versions.items()],
            }
            for name, versions in groups.items()
        ]
        return _answer(200, {"kind": "APIGroupDiscoveryList", "items": items})

    def _resources(self, group: str, version: str) -> Answer:
        found = [kind for kind in self._snapshot.header.kinds if (kind.group, kind.version) == (group, version)]
        if not found:
            return _status(404, "NotFound", "the server could not find the requested resource")
        resources = [
            {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced, "verbs": ["get", "list"]}
            for kind in found
        ]
        return _answer(200, {"kind": "APIResourceList", "groupVersion": found[0].api_version, "resources": resources})

    def _list(self, group: str, version: str, plural: str, namespace: str, query: Mapping[str, str]) -> Answer:
        kind = self._kinds.get((group, version, plural))
        if kind is None or kind.refusal is not None:
            return _missing(kind)
        objects = self._objects(kind)
        if namespace:
            objects = [obj for obj in objects if obj.key[0] == namespace]
        if selector := query.get("fieldSelector", ""):
            wanted = [part.partition("=") for part in selector.split(",")]
            objects = [obj for obj in objects if _matches(obj, wanted)]
        metadata = {"resourceVersion": kind.resource_version}
        head = {"apiVersion": kind.api_version, "kind": f"{kind.kind}List", "metadata": metadata}
        items = b",".join([obj.json for obj in objects])
        return Answer(200, _JSON, msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}")

    def _get(self, group: str, version: str, plural: str, key: tuple[str, str]) -> Answer:
        kind = self._kinds.get((group, version, plural))
        if kind is None or kind.refusal is not None:
            return _missing(kind)
        found = next((obj for obj in self._objects(kind) if obj.key == key), None)
        if found is None:
            qualified = f"{plural}.{group}" if group else plural
            return _status(404, "NotFound", f'{qualified} "{key[1]}" not found')
        document = msgspec.json.decode(found.json, type=dict[str, Any])
        return _answer(200, {"apiVersion": kind.api_version, "kind": kind.kind, **document})

    def _objects(self, kind: ListedKind) -> list[StoredObject]:
        return self._snapshot.objects[kind.api_version, kind.kind]


def _matches(stored: StoredObject, wanted: list[tuple[str, str, str]]) -> bool:
    obj = msgspec.json.decode(stored.json, type=dict[str, Any])
    return all(_field(obj, path) == value for path, _, value in wanted)


def _field(obj: Object, path: str) -> str:
    value: object = obj
    for part in path.split("."):
        value = mapping(value).get(part)
    return str(value or "")


def _missing(kind: ListedKind | None) -> Answer:
    if kind is not None and kind.refusal is not None:
        return _status(kind.refusal.status, kind.refusal.reason, kind.refusal.message)
    return _status(404, "NotFound", "the server could not find the requested resource")


def _status(code: int, reason: str, message: str) -> Answer:
    return _answer(code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})


def _answer(code: int, document: Object) -> Answer:
    return Answer(code, _JSON, msgspec.json.encode(document))
