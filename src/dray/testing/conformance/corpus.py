"""A corpus of recorded cases, and the result of one."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

Case = dict[str, Any]


class CorpusError(Exception):
    """The file is not a corpus."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`difference` says in one line what differs; None where the case passed.

    A case that cannot be decided yet is `waiting`, with the reason in `difference`: neither passed nor failed.
    """

    name: str
    difference: str | None = None
    waiting: bool = False

    @property
    def group(self) -> str:
        """The word before the colon; of names without one, what comes before a slash or a number."""
        return re.split(r":|/|-\d", self.name, maxsplit=1)[0]


def read(path: Path) -> Iterator[Case]:
    """The cases of a `.jsonl` or `.jsonl.gz` file."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _case(line, path, number)
    except (OSError, EOFError) as error:
        raise CorpusError(f"{path}: {error}") from error


def _case(line: bytes, path: Path, number: int) -> Case:
    try:
        case = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise CorpusError(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(case, dict) or "name" not in case or not case.keys() & {"expect", "steps"}:
        raise CorpusError(f"{path}:{number}: a case has a name and an expectation")
    return case
