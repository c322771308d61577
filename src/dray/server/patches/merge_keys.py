"""Merge keys of strategic merge patches, from the table of lists and the structural schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from dray.api.wire_types import TYPES
from dray.server.list_types import MERGE_KEYS, REPLACED_OBJECTS, versionless

# In place of the type of something the schema knows nothing about.
UNTYPED = "any"


@dataclass(frozen=True, slots=True)
class MergeRule:
    """`key` is empty for lists of plain values and for objects; `replace` holds for the value as a whole."""

    type_name: str
    replace: bool
    key: str = ""


_UNKNOWN = MergeRule(UNTYPED, replace=False)


def rule(type_name: str, field: str) -> MergeRule:
    """How `field` of an object of the type is merged, and the type of its value or of its items."""
    if type_name.startswith("{}"):
        return MergeRule(type_name[2:], replace=False)
    # Only what the types have is remembered: a patch may name any other field.
    return _known(type_name, field) if field in TYPES.get(type_name, ()) else _UNKNOWN


@cache
def _known(type_name: str, field: str) -> MergeRule:
    mark = TYPES[type_name][field]
    value_type = mark.lstrip("!*")
    path = f"{versionless(type_name)}.{field}"
    if value_type.startswith("[]"):
        return MergeRule(value_type[2:], path not in MERGE_KEYS, MERGE_KEYS.get(path, ""))
    return MergeRule(value_type, replace=path in REPLACED_OBJECTS)
