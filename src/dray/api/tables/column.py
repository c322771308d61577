"""A column, and the two that nearly every kind has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dray.api.objects import Object
from dray.api.tables.duration import age

Cell = Callable[[Object, str], Any]

NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """`wide` columns are shown by `kubectl get -o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    wide: bool = False

    @property
    def priority(self) -> int:
        return int(self.wide)


def created(obj: Object, now: str) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


NAME = Column("Name", lambda obj, now: obj["metadata"].get("name", ""), format="name")
AGE = Column("Age", created)
