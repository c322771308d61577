"""Owners of replicas, as the `scale` subresource tells them and as the object itself does.

A Scale has one field that can be owned. Whoever owns the replicas of the object owns those of its Scale; what is
written through the Scale is noted in the object, with the subresource, in the version of the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dray.api.objects import Object
from dray.server.fieldmanager import field_set, managers
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.managers import Manager, Managers, Owned

_API_VERSION: Final = "autoscaling/v1"
_IN_SCALE: Final = field_set.of_paths("spec.replicas")


class ScaleManagers:
    """Maps owners between an object and its Scale; `path` returns the path of the replicas in a version.

    `path` returns None for a version without replicas, and raises KeyError for an unknown version.
    """

    def __init__(self, entries: Any, api_version: str, path: Callable[[str], str | None]) -> None:
        self._parent = managers.read(entries)
        self._api_version, self._path = api_version, path

    def _replicas(self, owned: Owned) -> FieldSet | None:
        """Returns the replicas of a manager's fields, None if it does not own them; raises KeyError."""
        path = self._path(owned.api_version)
        found = field_set.of_paths(path) if path is not None else None
        return found if found is not None and field_set.covers(owned.fields, found) else None

    def of_scale(self) -> list[Object]:
        known: Managers = {}
        for key, owned in self._parent.items():
            try:
                replicas = self._replicas(owned)
            except KeyError:
                continue
            if replicas is not None:
                made = managers.manager(key.name, key.operation, _API_VERSION, key.subresource)
                known[made] = Owned(_IN_SCALE, _API_VERSION, owned.time)
        return managers.encode(known)

    def of_parent(self, scale_entries: Any) -> list[Object]:
        """Returns the object's managed fields, given those of its Scale after a write."""
        left = {_who(key): key for key, owned in managers.read(scale_entries).items() if _has_replicas(owned)}
        after: Managers = {}
        for key, owned in self._parent.items():
            try:
                replicas = self._replicas(owned)
            except KeyError:
                continue
            if replicas is None or left.pop(_who(key), None) is not None:
                after[key] = owned
            elif rest := field_set.difference(owned.fields, replicas):
                after[key] = owned.with_fields(rest)
        path = self._path(self._api_version)
        for name, operation, subresource in left if path is not None else ():
            made = managers.manager(name, operation, self._api_version, subresource)
            after[made] = Owned(field_set.of_paths(path or ""), self._api_version)
        return managers.encode(after)


def _who(key: Manager) -> tuple[str, str, str]:
    return key.name, key.operation, key.subresource


def _has_replicas(owned: Owned) -> bool:
    return field_set.covers(owned.fields, _IN_SCALE)
