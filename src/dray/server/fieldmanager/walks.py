"""Walks over one or two documents of a type: what is owned, what differs, what both make together, what is left.

These are the four operations of Kubernetes' structured merge. A value that does not have the shape its type promises
is taken as a leaf: what is stored may be older than the schema. `ABSENT` is no value at all; null is a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dray.server.fieldmanager import path_elements
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.field_types import ATOMIC, FieldType, Form

ABSENT: Final = object()
NOTHING: Final = FieldSet()


def is_object(kind: FieldType, value: Any) -> bool:
    return kind.granular_object and isinstance(value, dict)


def is_list(kind: FieldType, value: Any) -> bool:
    return kind.granular_list and isinstance(value, list)


def _member(kind: FieldType, name: str) -> FieldType:
    return kind.member(name) or ATOMIC


def _item(kind: FieldType) -> FieldType:
    return kind.items or ATOMIC


def _indexed(kind: FieldType, items: list[Any]) -> Iterator[tuple[str, Any]]:
    """Items with the steps that lead to them; those without a key of their own go by their position."""
    for index, item in enumerate(items):
        yield kind.step(item) or f"i:{index}", item


def _grouped(kind: FieldType, items: Any) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for step, item in _indexed(kind, items if isinstance(items, list) else []):
        groups.setdefault(step, []).append(item)
    return groups


def owned(kind: FieldType, document: Any) -> FieldSet:
    """The fields that a configuration names, and so lays claim to."""
    fields = FieldSet()
    if is_object(kind, document):
        for name, value in document.items():
            step = path_elements.member(name)
            _own(fields, step, _member(kind, name), value)
            if (not value and (value is None or isinstance(value, dict))) or name not in kind.fields:
                fields.members.add(step)
    elif is_list(kind, document):
        for step, items in _grouped(kind, document).items():
            fields.members.add(step)
            if len(items) == 1:
                _own(fields, step, _item(kind), items[0])
    return fields


def _own(fields: FieldSet, step: str, kind: FieldType, value: Any) -> None:
    if is_object(kind, value) or is_list(kind, value):
        below = owned(kind, value)
        if below:
            fields.children[step] = below
    elif value is not None or kind.form in (Form.LEAF, Form.DEDUCED):
        fields.members.add(step)


@dataclass(slots=True)
class Comparison:
    added: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    removed: FieldSet = field(default_factory=FieldSet)

    @property
    def changed(self) -> FieldSet:
        return self.modified | self.added if self.added else self.modified

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)

    def nest(self, step: str, below: Comparison) -> None:
        for mine, theirs in ((self.added, below.added), (self.modified, below.modified), (self.removed, below.removed)):
            if theirs:
                mine.children[step] = theirs


def compare(kind: FieldType, old: Any, new: Any, ignored: FieldSet = NOTHING) -> Comparison:
    """What stands between two documents of a type, neither of them a leaf; ignored fields aside."""
    found = Comparison()
    if is_object(kind, old) or is_object(kind, new):
        before, after = (value if isinstance(value, dict) else {} for value in (old, new))
        for name in {**before, **after}:
            left, right = before.get(name, ABSENT), after.get(name, ABSENT)
            if left is right or left == right:
                continue
            step = path_elements.member(name)
            if step not in ignored.members:
                _compare_at(found, step, _member(kind, name), left, right, ignored.children.get(step, NOTHING))
    else:
        lefts, rights = _grouped(kind, old), _grouped(kind, new)
        for step in {**lefts, **rights}:
            _compare_items(found, step, _item(kind), lefts.get(step, []), rights.get(step, []))
    return found


def _compare_items(found: Comparison, step: str, kind: FieldType, lefts: list[Any], rights: list[Any]) -> None:
    if len(lefts) <= 1 and len(rights) <= 1:
        _compare_at(found, step, kind, lefts[0] if lefts else ABSENT, rights[0] if rights else ABSENT)
    elif lefts != rights:
        _note(found, step, lefts or ABSENT, rights or ABSENT)


def _compare_at(found: Comparison, step: str, kind: FieldType, old: Any, new: Any, ignored: FieldSet = NOTHING) -> None:
    if not (kind.is_granular(old) or kind.is_granular(new)):
        _note(found, step, old, new)
    elif old is ABSENT:
        _whole(found.added, step, kind, new, ignored)
    elif new is ABSENT:
        _whole(found.removed, step, kind, old, ignored)
    else:
        found.nest(step, compare(kind, old, new, ignored))


def _whole(fields: FieldSet, step: str, kind: FieldType, value: Any, ignored: FieldSet) -> None:
    """Everything below a step that only one side has, and the step itself."""
    fields.members.add(step)
    if not kind.is_granular(value):
        return
    below = FieldSet()
    if isinstance(value, dict):
        for name, item in value.items():
            inner = path_elements.member(name)
            if inner not in ignored.members:
                _whole(below, inner, _member(kind, name), item, ignored.children.get(inner, NOTHING))
    else:
        for inner, items in _grouped(kind, value).items():
            if len(items) == 1:
                _whole(below, inner, _item(kind), items[0], NOTHING)
            else:
                below.members.add(inner)
    if below:
        fields.children[step] = below


def _note(found: Comparison, step: str, old: Any, new: Any) -> None:
    if old is ABSENT:
        found.added.members.add(step)
    elif new is ABSENT:
        found.removed.members.add(step)
    elif old != new:
        found.modified.members.add(step)


def removed(kind: FieldType, document: Any, gone: FieldSet) -> Any:
    """The document without the fields of a set; null where nothing is left of an object or list."""
    if is_object(kind, document):
        rest: dict[str, Any] = {}
        for name, value in document.items():
            step = path_elements.member(name)
            if step not in gone.members:
                below = gone.below(step)
                rest[name] = removed(_member(kind, name), value, below) if below else value
        return rest or None
    if is_list(kind, document):
        kept = [(step, item) for step, item in _indexed(kind, document) if step not in gone.members]
        items = [removed(_item(kind), item, gone.below(step)) if gone.below(step) else item for step, item in kept]
        return items or None
    return document


def named_fields(kind: FieldType, fields: FieldSet) -> FieldSet:
    """The set with all fields on the way to its members, as far as they are named by the type."""
    on_the_way = {step for step in fields.children if step[0] == "f" and step[2:] in kind.fields}
    children = {
        step: named_fields(_member(kind, step[2:]) if step[0] == "f" else _item(kind), child)
        for step, child in fields.children.items()
    }
    return FieldSet(fields.members | on_the_way, children)
