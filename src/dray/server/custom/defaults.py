"""Defaults of structural schemas.

A null where the schema allows none counts as absent: it gives way to the default, or just goes. Defaults are filled
in from the outside in, so that what a default brings is itself completed.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from dray.server.custom.definitions import Schema


def fill(value: Any, schema: Schema) -> None:
    """Completes a value in place."""
    if isinstance(value, dict):
        _fill_object(value, schema)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                if item is None and "default" in items and not items.get("nullable"):
                    value[index] = deepcopy(items["default"])
                fill(value[index], items)


def _fill_object(value: dict[str, Any], schema: Schema) -> None:
    properties = schema.get("properties") or {}
    for name, member in properties.items():
        if name in value and value[name] is None and not member.get("nullable"):
            del value[name]
        if name not in value and "default" in member:
            value[name] = deepcopy(member["default"])
        if name in value:
            fill(value[name], member)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        for name in value.keys() - properties.keys():
            if value[name] is None and "default" in others and not others.get("nullable"):
                value[name] = deepcopy(others["default"])
            fill(value[name], others)
