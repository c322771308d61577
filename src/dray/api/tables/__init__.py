"""Tables: the columns `kubectl get` shows for a kind, and the cells of an object's row.

`columns(kind)` and `row(kind, obj, now)` are the whole surface. Times are RFC 3339 text, and `now` is handed in.
Kinds without an entry show name and age.
"""

from __future__ import annotations

from typing import Any

from dray.api.catalogue import Kind
from dray.api.objects import Object
from dray.api.tables import cluster, devices, gangs, pods, policy
from dray.api.tables.column import AGE, NAME, Column

_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    **cluster.COLUMNS,
    **devices.COLUMNS,
    **gangs.COLUMNS,
    **pods.COLUMNS,
    **policy.COLUMNS,
}


def columns(kind: Kind) -> tuple[Column, ...]:
    return _COLUMNS.get((kind.group, kind.name), (NAME, AGE))


def row(kind: Kind, obj: Object, now: str) -> list[Any]:
    return [column.cell(obj, now) for column in columns(kind)]
