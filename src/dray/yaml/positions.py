"""Positions of values in a file.

A `Position` is the line and column of a mapping's key or a list's item, with the places below it: the shape of
the document, without its values. `find` follows a field path as an API server writes it
(`spec.devices[0].capacity[memory]`) and stops at the closest thing that the file has, because many errors
are about what is missing.
"""

from __future__ import annotations

import re
from typing import Final

Below = dict[str, "Position"] | list["Position"] | None

_SEGMENT = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")

# Versions differ in these levels, and an API server mixes the shapes: a v1beta1 file gets errors on paths
# with `exactly`, a v1 file gets the one about admin access without it and, in templates, without
# the inner `spec`.
_OPTIONAL_LEVELS: Final = ("exactly", "basic", "spec")


class Position:
    """A position (both counted from 1) and what is below it."""

    __slots__ = ("below", "column", "line")

    def __init__(self, line: int, column: int, below: Below = None) -> None:
        self.line = line
        self.column = column
        self.below = below

    def __repr__(self) -> str:
        return f"Position({self.line}, {self.column})"

    def find(self, path: str) -> Position:
        """The place of a field, or of its closest ancestor that exists."""
        here = self
        for segment in segments(path):
            there = here.child(segment)
            if there is None and segment in _OPTIONAL_LEVELS:
                continue
            if there is None:
                there = here._through_optional_level(segment)
            if there is None:
                break
            here = there
        return here

    def child(self, segment: str) -> Position | None:
        if isinstance(self.below, dict):
            return self.below.get(segment)
        if isinstance(self.below, list) and segment.isdecimal() and len(segment) < 10:
            index = int(segment)
            return self.below[index] if index < len(self.below) else None
        return None

    def _through_optional_level(self, segment: str) -> Position | None:
        for level in _OPTIONAL_LEVELS:
            wrapper = self.child(level)
            if wrapper is not None and (found := wrapper.child(segment)) is not None:
                return found
        return None


def segments(path: str) -> list[str]:
    """The names, indices and map keys of a field path; a map key may hold dots and slashes."""
    return [key or name for key, name in _SEGMENT.findall(path)]
