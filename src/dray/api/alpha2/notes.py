"""Notes of a conversion: the field, and what became of it or what to do instead."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from dray.api.errors import render


@dataclass(frozen=True, slots=True)
class Note:
    field: str
    message: str


@dataclass(slots=True)
class Notes:
    found: list[Note] = field(default_factory=list)

    def add(self, path: str, message: str) -> None:
        self.found.append(Note(path, message))

    def leftovers(self, content: dict[str, Any], known: Collection[str], path: str, where: str) -> None:
        """A note for every member that nobody understood."""
        for member, value in content.items():
            if member not in known:
                place = f"{path}.{member}" if path else member
                self.add(place, f"dropped: {where} has no such field; it held {shorten(value)}")


def shorten(value: Any, limit: int = 200) -> str:
    shown = render(value)
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."
