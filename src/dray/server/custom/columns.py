"""The columns of a custom kind in tables: its name, and what its definition asks for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dray.api.errors import render
from dray.api.objects import Object
from dray.api.tables.column import NAME, Cell, Column, age
from dray.server.custom import json_path
from dray.server.custom.definitions import ColumnDefinition, CustomVersion


@lru_cache(maxsize=32)
def columns(version: CustomVersion) -> tuple[Column, ...]:
    return (NAME, *(_column(definition) for definition in version.columns))


def row(version: CustomVersion, obj: Object, now: str) -> list[Any]:
    return [column.cell(obj, now) for column in columns(version)]


def _column(definition: ColumnDefinition) -> Column:
    wide = definition.priority > 0
    return Column(definition.name, _cell(definition), definition.type, definition.format, wide)


def _cell(definition: ColumnDefinition) -> Cell:
    path = json_path.parse(definition.json_path)

    def cell(obj: Object, now: str) -> Any:
        found = json_path.find(path, obj) if path is not None else []
        return shown(found[0], definition.type, now) if found else None

    return cell


def shown(value: Any, kind: str, now: str) -> Any:
    """A value as its column shows it; nothing where it is of another type."""
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else render(value)
    if kind == "date":
        return _date(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" else value


def _date(value: str, now: str) -> str:
    try:
        return age(value, now)
    except (ValueError, TypeError):
        return "<invalid>"
