"""The read cache of an informer: objects by namespace and name, and by whatever else they are looked up.

Objects are shared with everybody who reads them and must not be changed. An index is a function from an object to the
values it is found under.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dray.client.interface import Object

Key = tuple[str, str]
"""Namespace and name."""

Index = Callable[[Object], Iterable[str]]


class Change(msgspec.Struct, frozen=True):
    """`type` is ADDED, MODIFIED or DELETED; `previous` is what was there before."""

    type: str
    object: Object
    previous: Object | None

    @property
    def key(self) -> Key:
        return key_of(self.object)


def key_of(value: Object) -> Key:
    metadata = value.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


class Cache:
    def __init__(self, indexes: Mapping[str, Index] | None = None) -> None:
        self._objects: dict[Key, Object] = {}
        self._namespaces: dict[str, dict[Key, Object]] = {}
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, Object]]] = {name: {} for name in self._functions}
        self._found: dict[Key, dict[str, tuple[str, ...]]] = {}
        """By object and index: what it is found under."""

    def add_index(self, name: str, function: Index) -> None:
        """Finds what is there already too; under one name there is one function."""
        if name in self._functions:
            return
        self._functions[name] = function
        found: dict[str, dict[Key, Object]] = {}
        self._indexes[name] = found
        for key, value in self._objects.items():
            values = self._found[key][name] = tuple(function(value))
            for each in values:
                found.setdefault(each, {})[key] = value

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        """All of it, as it is now."""
        return iter(list(self._objects.values()))

    def get(self, name: str, *, namespace: str = "") -> Object | None:
        return self._objects.get((namespace, name))

    def in_namespace(self, namespace: str) -> list[Object]:
        return list(self._namespaces.get(namespace, {}).values())

    def by(self, index: str, value: str) -> list[Object]:
        return list(self._indexes[index].get(value, {}).values())

    def put(self, value: Object) -> list[Change]:
        """One change; two if the object was deleted and made anew in the meantime; none if it is the same."""
        key = key_of(value)
        previous = self._objects.get(key)
        if previous is None:
            self._insert(key, value)
            return [Change("ADDED", value, None)]
        if _of(previous, "uid") != _of(value, "uid"):
            return [*self.remove(key), *self.put(value)]
        if _of(previous, "resourceVersion") == _of(value, "resourceVersion") is not None:
            return []
        self._exchange(key, value)
        return [Change("MODIFIED", value, previous)]

    def remove(self, key: Key, last: Object | None = None) -> list[Change]:
        """`last` is the object as it was in the end, where that is known."""
        previous = self._objects.get(key)
        if previous is None:
            return []
        self._withdraw(key)
        return [Change("DELETED", last or previous, previous)]

    def replace(self, values: Iterable[Object]) -> list[Change]:
        """Makes the cache hold these and nothing else."""
        present = {key_of(value): value for value in values}
        changes = [change for key in list(self._objects) if key not in present for change in self.remove(key)]
        for value in present.values():
            changes += self.put(value)
        return changes

    def _insert(self, key: Key, value: Object) -> None:
        self._objects[key] = value
        self._namespaces.setdefault(key[0], {})[key] = value
        found = self._found[key] = {name: tuple(function(value)) for name, function in self._functions.items()}
        for name, values in found.items():
            for each in values:
                self._indexes[name].setdefault(each, {})[key] = value

    def _exchange(self, key: Key, value: Object) -> None:
        """Another object under the same key: mostly it is found under the same values."""
        self._objects[key] = value
        self._namespaces[key[0]][key] = value
        found = self._found[key]
        for name, function in self._functions.items():
            index, before, values = self._indexes[name], found[name], tuple(function(value))
            if values != before:
                found[name] = values
                for each in before:
                    _discard(index, each, key)
            for each in values:
                index.setdefault(each, {})[key] = value

    def _withdraw(self, key: Key) -> None:
        del self._objects[key]
        _discard(self._namespaces, key[0], key)
        for name, values in self._found.pop(key).items():
            for each in values:
                _discard(self._indexes[name], each, key)


def _discard(groups: dict[str, dict[Key, Object]], group: str, key: Key) -> None:
    members = groups.get(group, {})
    members.pop(key, None)
    if not members:
        groups.pop(group, None)


def _of(value: Object, field: str) -> Any:
    return (value.get("metadata") or {}).get(field)
