"""Walks over one or two documents of a type: what is owned, what differs, what both make together, what is left.

These are the four operations of Kubernetes' structured merge. A value that does not have the shape its type promises
is taken as a leaf: what is stored may be older than the schema. `ABSENT` is no value at all; null is a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dray.server.fieldmanager import path_elements
from dray.server.fieldmanager.field_set import NOTHING, FieldSet, is_member, put, union
from dray.server.fieldmanager.field_types import ATOMIC, FieldType, Form

ABSENT: Final = object()


def is_object(kind: FieldType, value: Any) -> bool:
    return kind.granular_object and isinstance(value, dict)


def is_list(kind: FieldType, value: Any) -> bool:
    return kind.granular_list and isinstance(value, list)


def _member(kind: FieldType, name: str) -> FieldType:
    return kind.member(name) or ATOMIC


def _item(kind: FieldType) -> FieldType:
    return kind.items or ATOMIC


def _indexed(kind: FieldType, items: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yields the items of a list with their path steps; items without a key have their position."""
    for index, item in enumerate(items):
        yield kind.step(item) or f"i:{index}", item


def _grouped(kind: FieldType, items: Any) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for step, item in _indexed(kind, items if isinstance(items, list) else []):
        groups.setdefault(step, []).append(item)
    return groups


def owned(kind: FieldType, document: Any) -> FieldSet:
    """Returns the fields that a configuration names, and so owns."""
    fields: FieldSet = {}
    if is_object(kind, document):
        for name, value in document.items():
            inner = _member(kind, name)
            empty = not value and (value is None or isinstance(value, dict))
            member = empty or name not in kind.fields or _is_leaf(inner, value)
            put(fields, path_elements.member(name), owned(inner, value), member=member)
    elif is_list(kind, document):
        for step, items in _grouped(kind, document).items():
            put(fields, step, owned(_item(kind), items[0]) if len(items) == 1 else NOTHING, member=True)
    return fields


def _is_leaf(kind: FieldType, value: Any) -> bool:
    return not (is_object(kind, value) or is_list(kind, value)) and (
        value is not None or kind.form in (Form.LEAF, Form.DEDUCED)
    )


class Comparison(msgspec.Struct):
    added: FieldSet = msgspec.field(default_factory=dict)
    modified: FieldSet = msgspec.field(default_factory=dict)
    removed: FieldSet = msgspec.field(default_factory=dict)

    @property
    def changed(self) -> FieldSet:
        return union(self.modified, self.added) if self.added and self.modified else self.added or self.modified


def compare(kind: FieldType, old: Any, new: Any, ignored: FieldSet = NOTHING) -> Comparison:
    """Compares two documents that are not leaves; leaves out ignored fields."""
    found = Comparison()
    if is_object(kind, old) or is_object(kind, new):
        before: dict[str, Any] = old if isinstance(old, dict) else {}
        after: dict[str, Any] = new if isinstance(new, dict) else {}
        for name, value in after.items():
            was = before.get(name, ABSENT)
            if was is not value and was != value:
                _compare_member(found, kind, name, was, value, ignored)
        if not before.keys() <= after.keys():
            for name in before.keys() - after.keys():
                _compare_member(found, kind, name, before[name], ABSENT, ignored)
    else:
        lefts, rights = _grouped(kind, old), _grouped(kind, new)
        for step in {**lefts, **rights}:
            _compare_items(found, step, _item(kind), lefts.get(step, []), rights.get(step, []))
    return found


def _compare_member(found: Comparison, kind: FieldType, name: str, old: Any, new: Any, ignored: FieldSet) -> None:
    step = "f:" + name
    skipped = ignored.get(step) if ignored else None
    if skipped is None or not is_member(skipped):
        _compare_at(found, step, kind.fields.get(name) or kind.others or ATOMIC, old, new, skipped or NOTHING)


def _compare_items(found: Comparison, step: str, kind: FieldType, lefts: list[Any], rights: list[Any]) -> None:
    if len(lefts) <= 1 and len(rights) <= 1:
        _compare_at(found, step, kind, lefts[0] if lefts else ABSENT, rights[0] if rights else ABSENT)
    elif lefts != rights:
        _note(found, step, lefts or ABSENT, rights or ABSENT)


def _compare_at(found: Comparison, step: str, kind: FieldType, old: Any, new: Any, ignored: FieldSet = NOTHING) -> None:
    if old is ABSENT:
        _whole(found.added, step, kind, new, ignored)
    elif new is ABSENT:
        _whole(found.removed, step, kind, old, ignored)
    elif not (kind.granular and (kind.is_granular(old) or kind.is_granular(new))):
        _note(found, step, old, new)
    else:
        below = compare(kind, old, new, ignored)
        if below.added:
            found.added[step] = below.added
        if below.modified:
            found.modified[step] = below.modified
        if below.removed:
            found.removed[step] = below.removed


def _whole(fields: FieldSet, step: str, kind: FieldType, value: Any, ignored: FieldSet) -> None:
    """Adds the step and everything below it, for a step that only one document has."""
    below = fields[step] = {}
    if not (kind.granular and kind.is_granular(value)):
        return
    if isinstance(value, dict):
        for name, item in value.items():
            inner = "f:" + name
            skipped = ignored.get(inner) if ignored else None
            if not isinstance(item, (dict, list)) and skipped is None:
                below[inner] = {}
            elif not is_member(skipped):
                _whole(below, inner, kind.fields.get(name) or kind.others or ATOMIC, item, skipped or NOTHING)
    else:
        for inner, items in _grouped(kind, value).items():
            if len(items) == 1:
                _whole(below, inner, _item(kind), items[0], NOTHING)
            else:
                below[inner] = {}
    if below:
        below["."] = {}


def _note(found: Comparison, step: str, old: Any, new: Any) -> None:
    if old is ABSENT:
        found.added[step] = {}
    elif new is ABSENT:
        found.removed[step] = {}
    elif old != new:
        found.modified[step] = {}


def removed(kind: FieldType, document: Any, gone: FieldSet) -> Any:
    """Returns the document without the fields of a set; None if nothing is left of an object or list."""
    if is_object(kind, document):
        kept = ((name, value, gone.get(path_elements.member(name))) for name, value in document.items())
        return {
            name: removed(_member(kind, name), value, below) if below else value
            for name, value, below in kept
            if not is_member(below)
        } or None
    if is_list(kind, document):
        there = ((item, gone.get(step)) for step, item in _indexed(kind, document))
        return [
            removed(_item(kind), item, below) if below else item for item, below in there if not is_member(below)
        ] or None
    return document


def named_fields(kind: FieldType, fields: FieldSet) -> FieldSet:
    """Returns the set with the fields on the path to its members, as far as the type names them."""
    found: FieldSet = {}
    for step, below in fields.items():
        if step != ".":
            inner = _member(kind, step[2:]) if step[0] == "f" else _item(kind)
            named = step[0] == "f" and step[2:] in kind.fields
            put(found, step, named_fields(inner, below), member=named or is_member(below))
    return found


def merged(kind: FieldType, live: Any, applied: Any) -> Any:
    """Merges two documents: `applied` wins where both have a leaf; `ABSENT` if neither has a value.

    Values of only one document are shared, not copied. Lists by keys keep the order of `live`, unless `applied`
    contradicts it.
    """
    if applied is ABSENT or live is ABSENT:
        return live if applied is ABSENT else applied
    if (not live and not applied) or not _granular(kind, live, applied):
        return applied
    if is_object(kind, live) or is_object(kind, applied):
        return _merged_objects(kind, live, applied)
    return _merged_lists(kind, live, applied)


def _granular(kind: FieldType, live: Any, applied: Any) -> bool:
    """Returns True if both have the same granular shape; null fits every shape."""
    if is_object(kind, live):
        return applied is None or is_object(kind, applied)
    if is_list(kind, live):
        return applied is None or is_list(kind, applied)
    return live is None and (is_object(kind, applied) or is_list(kind, applied))


def _merged_objects(kind: FieldType, live: Any, applied: Any) -> Any:
    first, second = (value if isinstance(value, dict) else {} for value in (live, applied))
    result = {}
    for name in {**first, **second}:
        value = merged(kind.member(name) or ATOMIC, first.get(name, ABSENT), second.get(name, ABSENT))
        if value is not ABSENT:
            result[name] = value
    return result


def _merged_lists(kind: FieldType, live: Any, applied: Any) -> Any:
    first = _with_steps(kind, live)
    second = _with_steps(kind, applied)
    of_first: dict[str, Any] = {}
    for step, item in first:
        # An item that the live list has twice is not merged.
        of_first[step] = ABSENT if step in of_first else item
    of_second = dict(second)
    return _Weaver(kind, of_first, of_second).weave(first, [step for step, _ in second])


def _with_steps(kind: FieldType, items: Any) -> list[tuple[str, Any]]:
    if not isinstance(items, list):
        return []
    return [(kind.step(item) or f"i:{index}", item) for index, item in enumerate(items)]


class _Weaver:
    """Merges two lists; common items come in the order of the second list."""

    def __init__(self, kind: FieldType, first: dict[str, Any], second: dict[str, Any]) -> None:
        self.items = kind.items or ATOMIC
        self.first = first
        self.second = second
        self.out: list[Any] = []
        self.done: set[str] = set()

    def weave(self, first: list[tuple[str, Any]], second: list[str]) -> list[Any]:
        shared = iter([step for step in second if step in self.first])
        following = next(shared, None)
        left = right = 0
        while left < len(first) or right < len(second):
            if left < len(first):
                step, item = first[left]
                if step not in self.second:
                    self.out.append(item)
                    left += 1
                    continue
                if step in self.done:
                    left += 1
                    continue
                if right < len(second) and step != second[right] and following not in (None, step):
                    # Both lists have the item, but the second list has another one first.
                    left += 1
                    continue
            if right < len(second):
                step = second[right]
                self._take(step)
                right += 1
                if left < len(first) and first[left][0] == step:
                    left += 1
                if step == following:
                    following = next(shared, None)
        return self.out

    def _take(self, step: str) -> None:
        self.done.add(step)
        self.out.append(merged(self.items, self.first.get(step, ABSENT), self.second[step]))
