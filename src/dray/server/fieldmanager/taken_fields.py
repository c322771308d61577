"""The fields that somebody takes who adds to an object and takes nothing from others, straight as `fieldsV1`.

They are what a comparison finds (walks.compare), written down (field_set.encode). Whoever creates an object, or is the
first to report its status, takes most of it, so here one walk does both. Where an object also loses something, that
walk would not do, and `differing` says so.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dray.api.caches import Cache
from dray.api.objects import Object
from dray.server.fieldmanager import path_elements
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.field_types import ATOMIC, FieldType

NOTHING = FieldSet()
_known: Final[Cache[tuple[FieldType, bytes, bytes], Object]] = Cache(512, 4 << 20)


class NotOnlyAdded(Exception):
    """The object before has something that is gone, or a list that needs to be compared item by item."""


def differing(kind: FieldType, old: Any, new: Any, ignored: FieldSet = NOTHING) -> Object:
    """The fields of `new` that are not so in `old`. Raises NotOnlyAdded."""
    found: Object = {}
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        gone = before.keys() - new.keys()
        if gone and any("f:" + name not in ignored.members for name in gone):
            raise NotOnlyAdded
        for name, value in new.items():
            step = "f:" + name
            if step in ignored.members or (name in before and before[name] == value):
                continue
            below = ignored.children.get(step, NOTHING)
            member = kind.fields.get(name) or kind.others or ATOMIC
            if name not in before:
                found[step] = _whole(member, value, below) if isinstance(value, (dict, list)) else {}
            elif not (member.is_granular(value) or member.is_granular(before[name])):
                found[step] = {}
            elif inner := differing(member, before[name], value, below):
                found[step] = inner
        return _sorted(found)
    if old:
        raise NotOnlyAdded
    return _items(kind, new)


def remembered(kind: FieldType, old: bytes, new: bytes) -> Object:
    """`differing` of documents in JSON: objects made from one template are in most parts the same."""
    found = _known.get((kind, old, new))
    if found is None:
        found = differing(kind, msgspec.json.decode(old), msgspec.json.decode(new))
        _known.put((kind, old, new), found, len(old) + len(new))
    return found


def overlap(fields: Object, others: Object) -> bool:
    """Whether two sets, both as `fieldsV1`, have a field in common."""
    for step in fields.keys() & others.keys():
        mine, theirs = fields[step], others[step]
        if (not mine or "." in mine) and (not theirs or "." in theirs):
            return True
        if overlap(mine, theirs):
            return True
    return False


def _whole(kind: FieldType, value: Any, ignored: FieldSet) -> Object:
    """What lies below a field that was not there before, the field itself included."""
    if not kind.is_granular(value):
        return {}
    if isinstance(value, list):
        below = _items(kind, value)
    else:
        fields, others, children = kind.fields, kind.others or ATOMIC, ignored.children
        below = _sorted(
            {
                # Plain values, which most are, have nothing below.
                step: _whole(fields.get(name) or others, inner, children.get(step, NOTHING) if children else NOTHING)
                if isinstance(inner, (dict, list))
                else {}
                for name, inner in value.items()
                if (step := "f:" + name) not in ignored.members
            }
        )
    return {".": {}, **below} if below else below


def _items(kind: FieldType, items: list[Any]) -> Object:
    found: Object = {}
    inner = kind.items or ATOMIC
    for index, item in enumerate(items):
        step = kind.step(item) or f"i:{index}"
        # An item that is there twice is owned as a whole.
        found[step] = {} if step in found else _whole(inner, item, NOTHING)
    return {step: found[step] for step in sorted(found, key=path_elements.order)} if len(found) > 1 else found


def _sorted(members: Object) -> Object:
    return {step: members[step] for step in sorted(members)} if len(members) > 1 else members
