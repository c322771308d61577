"""API objects as plain documents: the one type for them, and readers for the members that every object has.

Absent and null read the same. The readers that end in `_of` take an object that a schema has read; `mapping`,
`sequence`, `mappings`, `strings`, `text` and `walk` take a value of any type and give an empty one where another
type stands, so that rules about unchecked files need no ladder of type checks. Every controller asks `_of` readers of
every pod and claim that changes, a hundred times for each pod: those that are asked most call no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

Object = dict[str, Any]

Key = tuple[str, str]
"""Namespace and name."""

_INT64: Final = re.compile(r"([+-]?)0*(\d{1,19})", re.ASCII)


def metadata_of(obj: Mapping[str, Any]) -> Object:
    return obj.get("metadata") or {}


def spec_of(obj: Mapping[str, Any]) -> Object:
    return obj.get("spec") or {}


def status_of(obj: Mapping[str, Any]) -> Object:
    return obj.get("status") or {}


def key_of(obj: Mapping[str, Any]) -> Key:
    metadata = obj.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def uid_of(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("uid") or "")


def version_of(obj: Mapping[str, Any]) -> int:
    """Returns the resource version as a number, which Kubernetes allows to compare; 0 if it is none."""
    return version_number(metadata_of(obj).get("resourceVersion"))


def version_number(text: Any) -> int:
    # Python refuses to read numbers of thousands of digits.
    return int(text) if isinstance(text, str) and len(text) < 1000 and text.isdecimal() else 0


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def finalizers_of(obj: Mapping[str, Any]) -> list[str]:
    return metadata_of(obj).get("finalizers") or []


def owners_of(obj: Mapping[str, Any]) -> list[Object]:
    """Returns the owner references of the object."""
    return metadata_of(obj).get("ownerReferences") or []


def controller_reference(api_version: str, kind: str, obj: Mapping[str, Any]) -> Object:
    """Builds an owner reference with `controller: true`."""
    return {"apiVersion": api_version, "kind": kind, "name": key_of(obj)[1], "uid": uid_of(obj), "controller": True}


def controller_of(obj: Mapping[str, Any]) -> Object | None:
    """Returns the owner reference of the controller; None if there is none."""
    for reference in (obj.get("metadata") or {}).get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def controller_uid(obj: Mapping[str, Any]) -> str:
    reference = controller_of(obj)
    return str(reference.get("uid") or "") if reference is not None else ""


def is_deleting(obj: Mapping[str, Any]) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def conditions_of(obj: Mapping[str, Any]) -> list[Object]:
    return status_of(obj).get("conditions") or []


def condition_of(obj: Mapping[str, Any], type_: str, status: str | None = None) -> Object | None:
    """Returns the condition of a type, and with this status if given; None if there is none."""
    for condition in conditions_of(obj):
        if condition.get("type") == type_ and (status is None or condition.get("status") == status):
            return condition
    return None


def is_true(obj: Mapping[str, Any], type_: str) -> bool:
    """Whether the object has the condition with status True."""
    return condition_of(obj, type_, "True") is not None


def mapping(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[Object]:
    """Returns the items of a list that are mappings; empty if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def walk(value: Any, *names: str) -> Object:
    """Returns the mapping at the path of names below `value`; empty if there is none."""
    for name in names:
        value = mapping(value).get(name)
    return mapping(value)


def int64(value: Any) -> int | None:
    """Parses a 64-bit integer like Go's ParseInt; None if it is invalid or out of range."""
    match = _INT64.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(2**63) <= number < 2**63 else None


def bounded(value: Any, least: int, most: int, default: int = 0) -> int:
    """Returns a whole number limited to the bounds; the default if it is missing."""
    if not isinstance(value, int) or isinstance(value, bool):
        return default
    return least if value < least else most if value > most else value


def take_members(target: Object, source: Mapping[str, Any], members: Iterable[str]) -> None:
    """Copies members from one object to another; removes those that the first one lacks."""
    for member in members:
        if member in source:
            target[member] = source[member]
        else:
            target.pop(member, None)
