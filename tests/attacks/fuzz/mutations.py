"""Mutations of an object: each changes one place in it, guided by the types on the wire."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from dray.api.wire_types import TYPES
from tests.attacks.fuzz.values import bare, value

# Changing these makes another object of it, or none.
FIXED = {"apiVersion", "kind", "managedFields"}
_LENGTHS = [2, 3, 8, 33, 65, 129, 500]


@dataclass
class Place:
    """A value within an object: the container that holds it, its key there and its type."""

    holder: Any
    key: Any
    field: str
    wire: str
    path: tuple[str | int, ...]

    @property
    def value(self) -> Any:
        return self.holder[self.key]


def mutated(random: Random, document: dict[str, Any], wire: str, number: int) -> dict[str, Any]:
    found = copy.deepcopy(document)
    for _ in range(number):
        mutate(random, found, wire)
    return found


def mutate(random: Random, document: dict[str, Any], wire: str) -> None:
    places = list(walk(document, wire))
    if not places:
        return
    chance = random.random()
    place = random.choice(places)
    structs = _structs(places, document, wire)
    if chance < 0.45 and structs:
        _add(random, random.choice(structs))
    elif chance < 0.8:
        place.holder[place.key] = value(random, place.field, place.wire)
    elif chance < 0.87:
        del place.holder[place.key]
    else:
        lists = [each for each in places if isinstance(each.value, list) and each.value]
        if lists:
            _lengthen(random, random.choice(lists).value)


def walk(document: Any, wire: str, field: str = "", path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Every place in a document, apart from those that say what it is."""
    wire = bare(wire)
    if isinstance(document, dict):
        fields = TYPES.get(wire)
        for key, each in document.items():
            if key in FIXED and len(path) < 2:
                continue
            if fields is not None:
                inner = fields.get(key, "any")
            else:
                inner = wire[2:] if wire.startswith("{}") else "any"
            yield Place(document, key, key, inner, (*path, key))
            yield from walk(each, inner, key, (*path, key))
    elif isinstance(document, list):
        inner = wire[2:] if wire.startswith("[]") else "any"
        for index, each in enumerate(document[:50]):
            yield Place(document, index, field, inner, (*path, index))
            yield from walk(each, inner, field, (*path, index))


def _structs(places: list[Place], document: dict[str, Any], wire: str) -> list[tuple[dict[str, Any], str]]:
    found = [(document, wire), *((each.value, bare(each.wire)) for each in places)]
    return [(each, wire) for each, wire in found if wire in TYPES and isinstance(each, dict)]


def _add(random: Random, target: tuple[dict[str, Any], str]) -> None:
    """A field that is not there yet."""
    found, wire = target
    missing = [field for field in TYPES[wire] if field not in found and field not in FIXED]
    if missing:
        field = random.choice(missing)
        found[field] = value(random, field, TYPES[wire][field])


def _lengthen(random: Random, items: list[Any]) -> None:
    """More of what is in a list, with names of their own where they have names."""
    for number in range(random.choice(_LENGTHS) - 1):
        item = copy.deepcopy(items[number % len(items)])
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            item["name"] = f"{item['name'][:50]}-{number}"
        items.append(item)
