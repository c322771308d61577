"""Owner references and finalizers as plain data: what they say, and what is left of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from dray.api.objects import Object

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


class Fate(Enum):
    """What became of an owner: it stands, it is absent, it waits for its dependents to go, or nobody can tell."""

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
    """The owner references, none of which holds up its owner."""
    return [{**reference, "blockOwnerDeletion": False} for reference in metadata.get("ownerReferences") or ()]


def without_owners(metadata: Object, owners: set[str]) -> list[Object] | None:
    """The owner references that are left; None if there is nothing to take away."""
    references = metadata.get("ownerReferences") or []
    left = [reference for reference in references if reference.get("uid") not in owners]
    return left if len(left) != len(references) else None


def policy(metadata: Object) -> str:
    """How an object wants its own dependents treated, when it is collected."""
    finalizers = metadata.get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
