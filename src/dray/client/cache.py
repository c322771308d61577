"""The read cache of an informer: objects by namespace and name, and by indexes.

Objects are shared by all readers and must not be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from dray.api.objects import Key, Object, key_of, metadata_of

Index = Callable[[Object], Iterable[str]]
"""Maps an object to the values it is found under."""


class Change(msgspec.Struct, frozen=True):
    """A change; `type` is ADDED, MODIFIED or DELETED, `previous` is the object before it."""

    type: str
    key: Key
    object: Object
    previous: Object | None


class _Lookup:
    """The keys of objects by the values of an index.

    A changed object is indexed on the next lookup, because many objects change often and are not looked up.
    """

    def __init__(self, function: Index, objects: Mapping[Key, Object]) -> None:
        self._function = function
        self._objects = objects
        self._keys: dict[str, dict[Key, None]] = {}
        self._found: dict[Key, tuple[str, ...]] = {}
        self.changed: dict[Key, None] = dict.fromkeys(objects)

    def find(self, value: str) -> list[Object]:
        for key in self.changed:
            self._look(key)
        self.changed.clear()
        return [self._objects[key] for key in self._keys.get(value, ())]

    def forget(self, key: Key) -> None:
        self.changed.pop(key, None)
        for value in self._found.pop(key, ()):
            _discard(self._keys, value, key)

    def _look(self, key: Key) -> None:
        values = tuple(self._function(self._objects[key]))
        before = self._found.get(key, ())
        if values == before:
            return
        for value in before:
            _discard(self._keys, value, key)
        for value in values:
            self._keys.setdefault(value, {})[key] = None
        self._found[key] = values


class Cache:
    def __init__(self, indexes: Mapping[str, Index] | None = None) -> None:
        self._objects: dict[Key, Object] = {}
        self._namespaces: dict[str, dict[Key, None]] = {}
        self._lookups: dict[str, _Lookup] = {}
        for name, function in (indexes or {}).items():
            self.add_index(name, function)

    def add_index(self, name: str, function: Index) -> None:
        """Adds an index, which includes existing objects; each name has one function."""
        if name not in self._lookups:
            self._lookups[name] = _Lookup(function, self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        """Iterates over a copy of all objects."""
        return iter(list(self._objects.values()))

    def get(self, name: str, *, namespace: str = "") -> Object | None:
        return self._objects.get((namespace, name))

    def in_namespace(self, namespace: str) -> list[Object]:
        return [self._objects[key] for key in self._namespaces.get(namespace, ())]

    def by(self, index: str, value: str) -> list[Object]:
        return self._lookups[index].find(value)

    def put(self, value: Object) -> list[Change]:
        """Stores an object. Returns one change; two if it was deleted and made anew; none if it is unchanged."""
        key = key_of(value)
        previous = self._objects.get(key)
        if previous is None:
            self._namespaces.setdefault(key[0], {})[key] = None
            self._set(key, value)
            return [Change("ADDED", key, value, None)]
        before, now = metadata_of(previous), metadata_of(value)
        if before.get("uid") != now.get("uid"):
            return [*self.remove(key), *self.put(value)]
        if before.get("resourceVersion") == now.get("resourceVersion") is not None:
            return []
        self._set(key, value)
        return [Change("MODIFIED", key, value, previous)]

    def remove(self, key: Key, last: Object | None = None) -> list[Change]:
        """Removes an object. Returns the change; `last` is the final state of the object, if known."""
        previous = self._objects.pop(key, None)
        if previous is None:
            return []
        _discard(self._namespaces, key[0], key)
        for lookup in self._lookups.values():
            lookup.forget(key)
        return [Change("DELETED", key, last or previous, previous)]

    def replace(self, values: Iterable[Object]) -> list[Change]:
        """Replaces the content of the cache. Returns the changes."""
        present = {key_of(value): value for value in values}
        changes = [change for key in list(self._objects) if key not in present for change in self.remove(key)]
        for value in present.values():
            changes += self.put(value)
        return changes

    def _set(self, key: Key, value: Object) -> None:
        self._objects[key] = value
        for lookup in self._lookups.values():
            lookup.changed[key] = None


def _discard(groups: dict[str, dict[Key, None]], group: str, key: Key) -> None:
    members = groups.get(group, {})
    members.pop(key, None)
    if not members:
        groups.pop(group, None)
