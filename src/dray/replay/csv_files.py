"""CSV files of nodes and workloads: their columns, their lines, and numbers within bounds.

Files are text with a line of column names; those whose names end in `.gz` are compressed. Whatever is wrong with a file
is a TraceError that names the file, the line and the column, and says what is allowed.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, TypeVar

T = TypeVar("T")


class TraceError(ValueError):
    """A file is not a trace."""


def column_names(file: Path) -> Sequence[str]:
    """The column names of a CSV file. Raises TraceError, or OSError if it cannot be opened."""
    with _opened(file) as text:
        return csv.DictReader(text, strict=True).fieldnames or ()


def read_rows(file: Path, columns: Sequence[str], made: Callable[[dict[str, str]], T]) -> Iterator[T]:
    """Yields what is made of each line. Raises TraceError with the line, if a column is missing or a value is wrong."""
    with _opened(file) as text:
        # Without strict, a quote that is not closed makes one value of all the lines after it.
        reader = csv.DictReader(text, strict=True)
        if not reader.fieldnames:
            raise TraceError(f"{file}: the file is empty; write a line of column names first")
        if missing := [name for name in columns if name not in reader.fieldnames]:
            raise TraceError(f"{file}: column {missing[0]} not found; the columns are {', '.join(reader.fieldnames)}")
        try:
            for row in reader:
                if None in row:
                    raise ValueError("the line has more values than there are columns")
                yield made(row)
        except csv.Error as error:
            raise TraceError(f"{file}, line {reader.line_num + 1}: {error}; is a quote missing?") from None
        except (ValueError, TypeError) as error:
            raise TraceError(f"{file}, line {reader.line_num}: {error}") from None


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    # Also with -X utf8=0 files are read as UTF-8.
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as text:
        try:
            yield text
        except UnicodeDecodeError:
            raise TraceError(f"{file}: this is not text in UTF-8; write a CSV file") from None
        except (gzip.BadGzipFile, zlib.error):
            raise TraceError(f"{file}: this is not compressed with gzip; write it anew or drop .gz") from None
        except EOFError:
            raise TraceError(f"{file}: the compressed file is cut off; copy or write it anew") from None
        except csv.Error as error:
            raise TraceError(f"{file}: {error}") from None


def whole(row: Mapping[str, str], column: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number of a line. Without a value it is the default; without a default this raises ValueError."""
    text = (row.get(column) or "").strip()
    if not text:
        if default is None:
            raise ValueError(f"{column}: the line has no value for it")
        return default
    try:
        number = int(text)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise ValueError(f"{column}: {text[:40]!r} is not a whole number from {low} to {high}")
    return number


def seconds(row: Mapping[str, str], column: str, low: float | None = None) -> float | None:
    """A number of seconds of a line; None without a value. Raises ValueError."""
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (low is not None and number < low):
        bound = "" if low is None else f" from {low:g} on"
        raise ValueError(f"{column}: {text[:40]!r} is not a number of seconds{bound}")
    return number
