"""The graph of owners: every object by its uid, and the dependents of each uid, whether its object was seen or not.

Putting an object in costs a few dict operations, since every object of the cluster passes through here. What owner
references and finalizers say, and what is left of them, is plain data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from dray.api.caches import BoundedDict
from dray.api.objects import Object, key_of
from dray.client.cache import Cache
from dray.client.discovery import ServedResource

_REMEMBERED: Final = 10_000
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@dataclass(eq=False, slots=True)
class Source:
    """A watched resource and its cache; `active` turns False when the server no longer serves the resource."""

    resource: ServedResource
    cache: Cache
    active: bool = True


class Item:
    """A node of the graph; the object itself is in the cache of its source."""

    __slots__ = ("name", "namespace", "owners", "source", "uid")

    def __init__(self, uid: str, source: Source, namespace: str, name: str) -> None:
        self.uid = uid
        self.source = source
        self.namespace = namespace
        self.name = name
        self.owners: tuple[str, ...] = ()

    def read(self) -> Object | None:
        """Returns the object from the cache; None if it is gone or another object took its name."""
        found = self.source.cache.get(self.name, namespace=self.namespace)
        return found if found is not None and found["metadata"].get("uid") == self.uid else None

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.source.resource.kind} {place}"


class Graph:
    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        # The inner dicts are ordered sets.
        self._dependents: dict[str, dict[str, None]] = {}
        self._gone: BoundedDict[str, None] = BoundedDict(_REMEMBERED)

    def __len__(self) -> int:
        return len(self._items)

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def put(self, source: Source, obj: Object) -> tuple[Item, tuple[str, ...]]:
        """Adds or updates an item. Returns it, and the uids of owners that it no longer has."""
        metadata = obj["metadata"]
        uid = metadata["uid"]
        item = self._items.get(uid)
        if item is None or item.source is not source:
            namespace, name = key_of(obj)
            before = item
            item = self._items[uid] = Item(uid, source, namespace, name)
            item.owners = before.owners if before is not None else ()
        references = metadata.get("ownerReferences")
        owners = tuple(reference["uid"] for reference in references) if references else ()
        if owners == item.owners:
            return item, ()
        still = set(owners)
        lost = tuple(owner for owner in item.owners if owner not in still)
        self._forget_dependent(uid, lost)
        for owner in owners:
            self._dependents.setdefault(owner, {})[uid] = None
        item.owners = owners
        return item, lost

    def remove(self, uid: str) -> Item | None:
        """Removes the object and returns its item, None if it was unknown. Its dependents stay recorded."""
        item = self._items.pop(uid, None)
        if item is None:
            return None
        self._forget_dependent(uid, item.owners)
        self._gone[uid] = None
        return item

    def was_seen_to_go(self, uid: str) -> bool:
        """Whether an object of this uid was here not long ago."""
        return uid in self._gone

    def dependents(self, uid: str) -> list[Item]:
        return [item for dependent in self._dependents.get(uid, ()) if (item := self._items.get(dependent)) is not None]

    def owned(self) -> list[Item]:
        """Returns every item with owners."""
        return [item for item in self._items.values() if item.owners]

    def of_source(self, source: Source) -> list[Item]:
        return [item for item in self._items.values() if item.source is source]

    def stands(self, reference: Object, namespace: str) -> bool:
        """Whether an object of this namespace ("" for the cluster) has in the reference an owner that was seen.

        A reference that does not describe the object of its uid, or reaches into another namespace, is none.
        """
        owner = self._items.get(reference["uid"])
        return (
            owner is not None
            and owner.namespace in ("", namespace)
            and owner.name == reference.get("name")
            and owner.source.resource.kind == reference.get("kind")
        )

    def _forget_dependent(self, uid: str, owners: tuple[str, ...]) -> None:
        for owner in owners:
            dependents = self._dependents.get(owner)
            if dependents is not None:
                dependents.pop(uid, None)
                if not dependents:
                    del self._dependents[owner]


class Fate(Enum):
    """State of an owner: exists, absent, waits for its dependents to be deleted, or unknown."""

    SOLID = auto()
    DANGLING = auto()
    WAITING = auto()
    UNDECIDED = auto()


@dataclass(slots=True)
class Owners:
    """The uids of an object's owners by their fate."""

    solid: set[str] = field(default_factory=set)
    dangling: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    undecided: set[str] = field(default_factory=set)

    @property
    def leaving(self) -> set[str]:
        return self.dangling | self.waiting

    def add(self, reference: Object, fate: Fate) -> None:
        by_fate = {Fate.SOLID: self.solid, Fate.DANGLING: self.dangling, Fate.WAITING: self.waiting}
        by_fate.get(fate, self.undecided).add(reference["uid"])


def is_waiting(metadata: Object) -> bool:
    """Whether the object is being deleted in the foreground."""
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())


def blocks(metadata: Object, owner: str) -> bool:
    """Whether the owner has to wait until the object is gone."""
    return any(
        reference.get("uid") == owner and reference.get("blockOwnerDeletion")
        for reference in metadata.get("ownerReferences") or ()
    )


def unblocked(metadata: Object) -> list[Object]:
    """Returns the owner references with `blockOwnerDeletion` set to False."""
    return [{**reference, "blockOwnerDeletion": False} for reference in metadata.get("ownerReferences") or ()]


def without_owners(metadata: Object, owners: set[str]) -> list[Object] | None:
    """Returns the remaining owner references; None if none would be removed."""
    references = metadata.get("ownerReferences") or []
    left = [reference for reference in references if reference.get("uid") not in owners]
    return left if len(left) != len(references) else None


def policy(metadata: Object) -> str:
    """Returns the propagation policy that the object's finalizers ask for."""
    finalizers = metadata.get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
