"""Sets of fields: the paths into an object that a manager owns, in the form of `fieldsV1`.

A set is a tree of dictionaries by steps (path_elements.py). A step is a member, that is an owned field, if nothing is
below it or a `.` is; all else on the way to members is not owned. Sets are values: no operation changes its arguments,
and what it gives may share parts with them. They are in order only where they are written (`ordered`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dray.server.fieldmanager import path_elements

FieldSet = dict[str, Any]

NOTHING: Final[FieldSet] = {}
# Nothing that is served is deeper; managed fields that clients send are cut off here.
_MAX_DEPTH: Final = 200
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(FieldSet).decode


def is_member(below: FieldSet | None) -> bool:
    """Of what a set has at a step, None where it does not have the step."""
    return below is not None and (not below or "." in below)


def put(fields: FieldSet, step: str, below: FieldSet, *, member: bool) -> None:
    """Sets what a new set has at a step; `below` may be that of another set."""
    if "." in below:
        below = {inner: deeper for inner, deeper in below.items() if inner != "."}
    if below:
        fields[step] = {".": {}, **below} if member else below
    elif member:
        fields[step] = {}


def union(*sets: FieldSet) -> FieldSet:
    whole: FieldSet = {}
    for fields in sets:
        whole = _joined(whole, fields) if whole else fields
    return whole


def _joined(left: FieldSet, right: FieldSet) -> FieldSet:
    whole = left.copy()
    for step, below in right.items():
        there = whole.get(step)
        if there is None:
            whole[step] = below
        elif there or below:
            whole[step] = joined = _joined(there, below)
            if "." not in joined and (is_member(there) or is_member(below)):
                joined["."] = {}
    return whole


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    found: FieldSet = {}
    for step in left.keys() & right.keys():
        ours, theirs = left[step], right[step]
        put(found, step, intersection(ours, theirs), member=is_member(ours) and is_member(theirs))
    return found


def difference(left: FieldSet, right: FieldSet, *, deep: bool = False) -> FieldSet:
    """Without the members of the other; what lies below them stays, unless `deep`."""
    found: FieldSet = {}
    for step, ours in left.items():
        theirs = right.get(step)
        if theirs is None:
            found[step] = ours
        elif not (deep and is_member(theirs)):
            put(found, step, difference(ours, theirs, deep=deep), member=is_member(ours) and not is_member(theirs))
    return found


def overlap(left: FieldSet, right: FieldSet) -> bool:
    """Whether they have a field in common."""
    for step, below in right.items():
        ours = left.get(step)
        if ours is None or step == ".":
            continue
        if (is_member(ours) and is_member(below)) or (below and overlap(ours, below)):
            return True
    return False


def covers(left: FieldSet, right: FieldSet) -> bool:
    """Whether the first has every field of the second."""
    for step, below in right.items():
        ours = left.get(step)
        if step == ".":
            continue
        if ours is None or (is_member(below) and not is_member(ours)) or (below and not covers(ours, below)):
            return False
    return True


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The members of a level before what lies below it."""
    steps = [step for step in path_elements.in_order(fields) if step != "."]
    yield from ((*prefix, step) for step in steps if is_member(fields[step]))
    for step in steps:
        yield from paths(fields[step], (*prefix, step))


def of_paths(*names: str) -> FieldSet:
    """The set of fields with these names: `metadata.name`."""
    return union(*map(_of_path, names))


def _of_path(name: str) -> FieldSet:
    fields: FieldSet = {}
    for part in reversed(name.split(".")):
        fields = {path_elements.member(part): fields}
    return fields


def ordered(fields: FieldSet) -> FieldSet:
    """The set as it is written."""
    text = _encode(fields)
    # Where no step is a position their order is that of texts: 2 µs for a claim, and 7 step by step.
    if b'"i:' not in text:
        return _decode(text)
    return {step: ordered(fields[step]) for step in path_elements.in_order(fields)}


def read(document: Any, depth: int = 0) -> FieldSet | None:
    """The set that a client wrote; None if it is none."""
    if not isinstance(document, dict) or depth > _MAX_DEPTH:
        return None
    fields: FieldSet = {}
    for text, below in document.items():
        if text == ".":
            continue
        step = path_elements.canonical(text)
        inner = read(below, depth + 1)
        if step is None or inner is None:
            return None
        put(fields, step, inner, member=not inner or "." in below)
    return fields
