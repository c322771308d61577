"""The type of a field as far as ownership goes: leaf, list by keys, set, or something with fields of its own.

Built-in kinds get theirs from the structural schema and the table of list types, custom kinds from their OpenAPI
schema (custom/field_types.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from dray.api.wire_types import TYPES
from dray.server import list_types
from dray.server.fieldmanager import path_elements
from dray.server.list_types import versionless


class Form(Enum):
    # Scalars, and lists and objects that are owned as a whole.
    LEAF = auto()
    OBJECT = auto()
    SET = auto()
    KEYED = auto()
    # Unknown types: objects are granular, everything else is a leaf.
    DEDUCED = auto()


class Item(Enum):
    """The kind of value that a leaf may hold, to check applied configurations."""

    ANYTHING = auto()
    LIST = auto()
    OBJECT = auto()
    PLAIN = auto()


@dataclass(slots=True, eq=False)
class FieldType:
    form: Form
    holds: Item = Item.ANYTHING
    # Types of fields by name, and the type of all other fields; None if there may be none.
    fields: dict[str, FieldType] = field(default_factory=dict)
    others: FieldType | None = None
    # The type of the items of a list.
    items: FieldType | None = None
    keys: tuple[str, ...] = ()
    key_defaults: dict[str, Any] = field(default_factory=dict)
    # True for forms whose parts have owners of their own: objects, lists, or either.
    granular_object: bool = field(init=False)
    granular_list: bool = field(init=False)
    granular: bool = field(init=False)

    def __post_init__(self) -> None:
        self.granular_object = self.form in (Form.OBJECT, Form.DEDUCED)
        self.granular_list = self.form in (Form.SET, Form.KEYED)
        self.granular = self.form is not Form.LEAF

    def member(self, name: str) -> FieldType | None:
        return self.fields.get(name) or self.others

    def is_granular(self, value: Any) -> bool:
        """Returns True if the parts of the value have owners of their own; an empty value is owned as a whole."""
        if isinstance(value, dict):
            return self.granular_object and bool(value)
        return self.granular_list and isinstance(value, list) and bool(value)

    def step(self, item: Any) -> str | None:
        """Returns the path step of an item of this list; None if the item has no key."""
        if self.form is Form.SET:
            return path_elements.value(item) if not isinstance(item, (dict, list)) else None
        if not isinstance(item, dict):
            return None
        if len(self.keys) == 1 and type(only := item.get(self.keys[0])) is str:
            return path_elements.keyed_by(self.keys[0], only)
        keys = {name: item.get(name, self.key_defaults.get(name)) for name in self.keys}
        given = {name: value for name, value in keys.items() if value is not None}
        return path_elements.keyed(given) if given else None


PLAIN = FieldType(Form.LEAF, Item.PLAIN)
ATOMIC_LIST = FieldType(Form.LEAF, Item.LIST)
ATOMIC_OBJECT = FieldType(Form.LEAF, Item.OBJECT)
ATOMIC = FieldType(Form.LEAF)
DEDUCED = FieldType(Form.DEDUCED)
DEDUCED.others = DEDUCED

_UNTYPED = frozenset({"raw", "any"})
_known: dict[str, FieldType] = {}


def field_type(type_name: str) -> FieldType:
    """Returns the field type of a wire type such as `core_v1.Pod`."""
    wire = TYPES.get(type_name)
    if wire is None:
        return ATOMIC if type_name in _UNTYPED else PLAIN
    return ATOMIC_OBJECT if list_types.is_atomic(type_name) else _granular(type_name, wire)


def _granular(type_name: str, wire: Mapping[str, str]) -> FieldType:
    found = _known.get(type_name)
    if found is not None:
        return found
    # A type may contain itself, so it is stored before its fields are made.
    made = _known[type_name] = FieldType(Form.OBJECT)
    for name, mark in wire.items():
        made.fields[name] = _member_type(f"{versionless(type_name)}.{name}", mark.lstrip("!*"))
    return made


def _member_type(path: str, type_name: str) -> FieldType:
    if type_name.startswith("[]"):
        items = field_type(type_name[2:])
        if path in list_types.SETS:
            return FieldType(Form.SET, items=items)
        if path in list_types.KEYED:
            defaults = list_types.KEY_DEFAULTS.get(path, {})
            return FieldType(Form.KEYED, items=items, keys=list_types.KEYED[path], key_defaults=defaults)
        return ATOMIC_LIST
    if type_name.startswith("{}"):
        if path in list_types.ATOMIC_MAPS:
            return ATOMIC_OBJECT
        return FieldType(Form.OBJECT, others=_member_type("", type_name[2:]))
    if path in list_types.GRANULAR_OBJECTS:
        return _granular(type_name, TYPES[type_name])
    return field_type(type_name)
