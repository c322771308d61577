"""A set of fields: the paths into an object that a manager owns.

A tree. A node has members (the steps that lead to an owned field) and children (what is owned further down); a step
may be both, which `fieldsV1` writes as a `.` within it. Sets are values: every operation gives a new one, and shares
what did not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dray.server.fieldmanager import path_elements

# Nothing that is served is deeper; managed fields that clients send are cut off here.
_MAX_DEPTH = 200


class FieldSet:
    __slots__ = ("children", "members")

    def __init__(self, members: set[str] | None = None, children: dict[str, FieldSet] | None = None) -> None:
        self.members: set[str] = members or set()
        self.children: dict[str, FieldSet] = children or {}

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and (self.members, self.children) == (other.members, other.children)

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: FieldSet) -> FieldSet:
        children = dict(self.children)
        for step, child in other.children.items():
            children[step] = children[step] | child if step in children else child
        return FieldSet(self.members | other.members, children)

    def __and__(self, other: FieldSet) -> FieldSet:
        def both(step: str, child: FieldSet) -> FieldSet:
            return child & other.children[step] if step in other.children else FieldSet()

        return FieldSet(self.members & other.members, self._children(both))

    def __sub__(self, other: FieldSet) -> FieldSet:
        """Without the members of the other; what lies below them stays."""

        def less(step: str, child: FieldSet) -> FieldSet:
            return child - other.children[step] if step in other.children else child

        return FieldSet(self.members - other.members, self._children(less))

    def outside(self, other: FieldSet) -> FieldSet:
        """Without the members of the other and everything below them."""

        def less(step: str, child: FieldSet) -> FieldSet:
            if step in other.members:
                return FieldSet()
            return child.outside(other.children[step]) if step in other.children else child

        return FieldSet(self.members - other.members, self._children(less))

    def _children(self, change: Callable[[str, FieldSet], FieldSet]) -> dict[str, FieldSet]:
        changed = {step: change(step, child) for step, child in self.children.items()}
        return {step: child for step, child in changed.items() if child}

    def below(self, step: str) -> FieldSet:
        return self.children.get(step) or FieldSet()

    def paths(self, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for step in sorted(self.members, key=path_elements.order):
            yield (*prefix, step)
        for step in sorted(self.children, key=path_elements.order):
            yield from self.children[step].paths((*prefix, step))


def union(sets: Iterable[FieldSet]) -> FieldSet:
    """All of them together; as much work as the sets are large, where `|` copies what it has so far each time."""
    whole = FieldSet()
    # Nodes of the outcome that were made here: others belong to the sets.
    own: set[int] = {id(whole)}
    stack = [(whole, each) for each in sets]
    while stack:
        node, added = stack.pop()
        node.members |= added.members
        for step, child in added.children.items():
            there = node.children.get(step)
            if there is None:
                node.children[step] = child
                continue
            if id(there) not in own:
                there = node.children[step] = FieldSet(set(there.members), dict(there.children))
                own.add(id(there))
            stack.append((there, child))
    return whole


def of_paths(*paths: str) -> FieldSet:
    """The set of fields with these names: `metadata.name`."""
    fields = FieldSet()
    for path in paths:
        node = fields
        *parents, last = path.split(".")
        for parent in parents:
            node = node.children.setdefault(path_elements.member(parent), FieldSet())
        node.members.add(path_elements.member(last))
    return fields


def encode(fields: FieldSet) -> dict[str, Any]:
    """The set as `fieldsV1`."""
    encoded: dict[str, Any] = {}
    for step in sorted(fields.members | fields.children.keys(), key=path_elements.order):
        below = encode(fields.children[step]) if step in fields.children else {}
        encoded[step] = {".": {}, **below} if below and step in fields.members else below
    return encoded


def decode(document: Any, depth: int = 0) -> FieldSet | None:
    """The set that `fieldsV1` gives; nothing if it gives none."""
    if not isinstance(document, dict) or depth > _MAX_DEPTH:
        return None
    fields = FieldSet()
    for text, below in document.items():
        if text == ".":
            continue
        step = path_elements.canonical(text)
        child = decode(below, depth + 1)
        if step is None or child is None:
            return None
        if not child or "." in below:
            fields.members.add(step)
        if child:
            fields.children[step] = child
    return fields


def _is_member(below: Any) -> bool:
    return not below or "." in below


def encoded_overlap(document: dict[str, Any], fields: FieldSet) -> bool:
    """Whether `fieldsV1` and a set have a field in common; what the set does not name is not looked at."""
    for step in fields.members:
        if step in document and _is_member(document[step]):
            return True
    return any(step in document and encoded_overlap(document[step], child) for step, child in fields.children.items())


def encoded_cover(document: dict[str, Any], fields: FieldSet) -> bool:
    """Whether `fieldsV1` holds every field of a set."""
    for step in fields.members:
        if step not in document or not _is_member(document[step]):
            return False
    return all(step in document and encoded_cover(document[step], child) for step, child in fields.children.items())
