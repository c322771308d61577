"""StoredObjects: objects as an API server would store them; the scheduler is told of every change."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from dray.api.objects import Object, key_of, version_of
from dray.api.times import text_of
from dray.scheduling.scheduler import Scheduler
from dray.snapshot.listing import Unreadable, fill

# The scheduler's names of kinds that exist in several API groups.
_NAMES: Final = {
    ("scheduling.run.ai", "PodGroup"): "PodGroup.scheduling.run.ai",
    ("scheduling.x-k8s.io", "PodGroup"): "PodGroup.scheduling.x-k8s.io",
    ("kai.scheduler", "Topology"): "Topology.kai.scheduler",
    ("kueue.x-k8s.io", "Topology"): "Topology.kueue.x-k8s.io",
}
# An object comes after those that it names.
_ORDER: Final = (
    "Namespace",
    "PriorityClass",
    "DeviceClass",
    "Node",
    "ResourceSlice",
    "Topology.kai.scheduler",
    "Topology.kueue.x-k8s.io",
    "ResourceFlavor",
    "WorkloadPriorityClass",
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
    "Queue",
    "PodDisruptionBudget",
    "CompositePodGroup",
    "PodGroup",
    "PodGroup.scheduling.run.ai",
    "PodGroup.scheduling.x-k8s.io",
    "Job",
    "ResourceClaim",
    "Pod",
)
_NAMESPACED: Final = frozenset(_ORDER[_ORDER.index("PodDisruptionBudget") :]) | {"LocalQueue"}
_NOT_WATCHED: Final = frozenset({"Job"})
_CHANGED: Final = {"Pod": "v1", "ResourceClaim": "resource.k8s.io/v1"}
"""Kinds that decisions change, with their versions."""

StoredKey = tuple[str, str, str]
"""Kind, namespace and name."""


def kind_of(document: Mapping[str, Any]) -> str:
    group = document.get("apiVersion", "v1").rpartition("/")[0]
    kind: str = document["kind"]
    return _NAMES.get((group, kind), kind)


def in_order(documents: Iterable[Object]) -> list[Object]:
    """Sorts the objects so that each comes after those that it names; a kind that is not known is an error."""
    documents = list(documents)
    unknown = {kind_of(document) for document in documents} - set(_ORDER)
    if unknown:
        raise ValueError(f"kinds that cannot be played: {', '.join(sorted(unknown))}")
    return sorted(documents, key=lambda document: _ORDER.index(kind_of(document)))


class StoredObjects:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._objects: dict[StoredKey, Object] = {}
        self._versions, self._uids = count(1), count(1)

    def put(self, document: Object, now: float) -> None:
        """Creates or replaces an object, and fills in what a server would."""
        document = copy.deepcopy(document)
        kind, metadata = kind_of(document), document["metadata"]
        if kind in _NAMESPACED:
            metadata.setdefault("namespace", "default")
        key = (kind, metadata.get("namespace", ""), metadata["name"])
        known = self._objects.get(key)
        metadata["uid"] = metadata.get("uid") or (known["metadata"]["uid"] if known else self.new_uid(kind.lower()))
        metadata["resourceVersion"] = self._new_version()
        metadata.setdefault("creationTimestamp", text_of(now))
        self._objects[key] = document
        if kind not in _NOT_WATCHED:
            self._scheduler.put(kind, document, now)

    def load(self, objects: Mapping[str, Sequence[Object]], now: float, unreadable: Unreadable) -> None:
        """Takes over the lists of a cluster, by the kind under which the scheduler receives them.

        Pods of all schedulers count as those of this one.
        """
        objects = {**objects, "Pod": [self._adopted(each) for each in objects.get("Pod", ())]}
        for kind, api_version in _CHANGED.items():
            named = {"apiVersion": api_version, "kind": kind}
            for each in objects.get(kind, ()):
                self._objects[kind, *key_of(each)] = {**each, **named}
        # What is written from now on is newer than everything that was listed.
        newest = max((version_of(each) for kind in _CHANGED for each in objects.get(kind, ())), default=0)
        self._versions = count(newest + 1)
        fill(self._scheduler, objects, now, unreadable)

    def change(self, kind: str, obj: Object, now: float, *, gone: bool = False) -> None:
        """Puts or removes an object of a list, which need not name its own kind."""
        if kind in _CHANGED and gone:
            self.remove(kind, *key_of(obj), now)
        elif kind in _CHANGED:
            adopted = self._adopted(obj) if kind == "Pod" else obj
            self.put({**adopted, "apiVersion": _CHANGED[kind], "kind": kind}, now)
        elif kind != "ResourceClaimTemplate":
            (self._scheduler.remove if gone else self._scheduler.put)(kind, obj, now)

    def _adopted(self, pod: Object) -> Object:
        name, spec = self._scheduler.options.name, pod["spec"]
        return pod if spec.get("schedulerName") == name else {**pod, "spec": {**spec, "schedulerName": name}}

    def remove(self, kind: str, namespace: str, name: str, now: float) -> Object:
        document = self._objects.pop(_key(kind, namespace, name))
        if kind not in _NOT_WATCHED:
            self._scheduler.remove(kind, document, now)
        return document

    def keep(self, document: Object) -> Object:
        """Stores an object as a new version without telling the scheduler, which made the change itself."""
        stored = copy.deepcopy(document)
        metadata = stored["metadata"]
        metadata["resourceVersion"] = self._new_version()
        self._objects[_key(kind_of(stored), metadata["namespace"], metadata["name"])] = stored
        return stored

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._objects.get(_key(kind, namespace, name))

    def of_kind(self, kind: str) -> Iterator[Object]:
        return iter([document for key, document in self._objects.items() if key[0] == kind])

    def new_uid(self, prefix: str) -> str:
        return f"{prefix}-{next(self._uids)}"

    def _new_version(self) -> str:
        return str(next(self._versions))


def _key(kind: str, namespace: str, name: str) -> StoredKey:
    return kind, namespace if kind in _NAMESPACED else "", name
