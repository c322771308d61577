"""Snapshots without a file: of objects that no server has, and of a cluster without its secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from dray.api.catalogue import KINDS as BUILT_IN
from dray.api.catalogue import KindVersion, built_in
from dray.api.objects import Object, key_of
from dray.client.discovery import ServedResource
from dray.scheduling_loop.optional_kinds import KINDS
from dray.snapshot.files import Header, ListedKind, Snapshot, StoredObject, StoredSnapshot
from dray.snapshot.listing import REQUIRED

_PRIORITY_CLASS = ("scheduling.k8s.io/v1", "PriorityClass")
_SERVED_IF_PRESENT = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), "apps/v1"),
    **dict.fromkeys(("Job", "CronJob"), "batch/v1"),
    **dict.fromkeys(("PersistentVolumeClaim", "PersistentVolume"), "v1"),
    "StorageClass": "storage.k8s.io/v1",
}
"""Kinds that are served if there are objects of them, with their versions."""


_Resource = KindVersion | ServedResource


def in_memory(objects: Mapping[str, Sequence[Object]], taken_at: float) -> StoredSnapshot:
    """Returns a snapshot of objects by the kind under which the scheduler receives them; a kind may have no objects."""
    kinds, lists = [], {}
    for name, resource in _resources(objects):
        found = [StoredObject(key_of(obj), msgspec.json.encode(obj)) for obj in objects.get(name, ())]
        described = ListedKind(
            resource.group, resource.version, resource.plural, resource.kind, resource.namespaced, len(found), "1"
        )
        kinds.append(described)
        lists[described.api_version, described.kind] = found
    header = Header(taken_at=taken_at, namespace="default", kinds=tuple(kinds))
    return StoredSnapshot(header, lists)


def stored(snapshot: Snapshot) -> StoredSnapshot:
    """Returns the snapshot as it would be read from its file."""
    return StoredSnapshot(
        snapshot.header,
        {
            kind: [StoredObject(key_of(obj), msgspec.json.encode(obj)) for obj in objects]
            for kind, objects in snapshot.objects.items()
        },
    )


def _resources(objects: Mapping[str, Sequence[Object]]) -> Iterator[tuple[str, _Resource]]:
    required: dict[str, _Resource] = {name: built_in(version, name) for name, version in REQUIRED.items()}
    yield from {**required, _PRIORITY_CLASS[1]: built_in(*_PRIORITY_CLASS)}.items()
    others: dict[str, _Resource] = {name: built_in(version, name) for name, version in _SERVED_IF_PRESENT.items()}
    for name, kind in KINDS.items():
        others[name] = kind.resource or _newest(kind.group, kind.plural)
    yield from ((name, resource) for name, resource in others.items() if name in objects and name not in required)


def _newest(group: str, plural: str) -> KindVersion:
    kind = next(kind for kind in BUILT_IN if (kind.group, kind.plural) == (group, plural))
    found = kind.version(kind.versions[0].name)
    assert found is not None
    return found
