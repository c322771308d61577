"""Layout: turns a Table of an API server into lines of text, as kubectl does.

A column is as wide as its widest cell so far, so that the rows of a watch stay aligned. A server sends the columns
once, and then a row for every event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dray.api.objects import Object, walk
from dray.api.printable import printable

_NARROWEST: Final = 6
_GAP: Final = 3


class Layout:
    """The columns and widths of a table. `namespaces` adds a first column; `title` is a prefix of names."""

    def __init__(self, *, wide: bool = False, namespaces: bool = False, title: str = "") -> None:
        self._wide = wide
        self._namespaces = namespaces
        self._title = f"{title}/" if title else ""
        self._columns: list[Object] = []
        self._widths: list[int] = []

    def lines(self, tables: Iterable[Object]) -> list[str]:
        """Returns the next lines to print; the header comes with the first row."""
        rows = []
        for table in tables:
            self._columns = table.get("columnDefinitions") or self._columns
            rows += [self._row(row) for row in table.get("rows") or ()]
        if rows and not self._widths:
            rows.insert(0, self._header())
        self._widen(rows)
        return [self._line(row) for row in rows]

    def _header(self) -> list[str]:
        names = [str(column.get("name", "")).upper() for column in self._columns if self._shows(column)]
        return ["NAMESPACE", *names] if self._namespaces else names

    def _shows(self, column: Object) -> bool:
        return self._wide or not column.get("priority")

    def _row(self, row: Object) -> list[str]:
        pairs = zip(self._columns, row.get("cells") or (), strict=False)
        cells = [cell_text(cell) for column, cell in pairs if self._shows(column)]
        cells[:1] = [self._title + cell for cell in cells[:1]]
        metadata = walk(row, "object", "metadata")
        return [cell_text(metadata.get("namespace")), *cells] if self._namespaces else cells

    def _widen(self, rows: list[list[str]]) -> None:
        for row in rows:
            self._widths += [_NARROWEST] * (len(row) - len(self._widths))
            for index, cell in enumerate(row):
                self._widths[index] = max(self._widths[index], len(cell) + _GAP)

    def _line(self, row: list[str]) -> str:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], self._widths, strict=False)]
        return "".join([*padded, *row[-1:]])


def cell_text(cell: Any) -> str:
    """Returns the first line of the cell, with control characters escaped."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    first, more, _ = str(cell).partition("\n")
    shown = printable(first)
    return f"{shown}..." if more else shown
