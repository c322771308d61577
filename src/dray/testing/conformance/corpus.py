"""A corpus of recorded cases, and the result of one."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

Case = dict[str, Any]


class CorpusError(Exception):
    """Raised if the file is not a corpus."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case; `difference` describes what differs in one line, None if the case passed.

    A case that cannot be decided yet is `waiting`, with the reason in `difference`: neither passed nor failed. A
    difference with a reason in `reviewed` is accepted: the case passed. `known` is the reason why a difference is
    expected for now: the case is counted apart.
    """

    name: str
    difference: str | None = None
    waiting: bool = False
    reviewed: str = ""
    known: str = ""
    remark: str = ""
    """How the expected outcome was reached in another way; empty if it was not."""

    @property
    def state(self) -> str:
        if self.waiting:
            return "waiting"
        if self.difference is None or self.reviewed:
            return "passed"
        return "known" if self.known else "failed"

    @property
    def group(self) -> str:
        """Returns the group of the case: its name up to a colon, or else up to a slash or a number."""
        return re.split(r":|/|-\d", self.name, maxsplit=1)[0]


def read(path: Path) -> Iterator[Case]:
    """Yields the cases of a `.jsonl` or `.jsonl.gz` file."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and (case := _case(line, path, number)) is not None:
                    yield case
    except (OSError, EOFError) as error:
        raise CorpusError(f"{path}: {error}") from error


def _case(line: bytes, path: Path, number: int) -> Case | None:
    """Returns the case of a line; None for the inner form of a case, which has no id."""
    try:
        case = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise CorpusError(f"{path}:{number}: not JSON: {error}") from error
    if isinstance(case, dict) and isinstance(case.get("case"), dict):
        case = case["case"]
        if "id" not in case:
            return None
        case["name"] = case["id"]
    if not isinstance(case, dict) or "name" not in case or not case.keys() & {"expect", "steps"}:
        raise CorpusError(f"{path}:{number}: a case has a name and an expectation")
    return case


def read_known(path: Path) -> dict[str, str]:
    """Returns the names of cases that are known to differ, each with the reason."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError) as error:
        raise CorpusError(f"{path}: {error}") from error


def with_known(outcome: Outcome, known: Mapping[str, str]) -> Outcome:
    """Marks a known difference; a known case that passes is a failure, so that the list stays true."""
    if outcome.name not in known:
        return outcome
    if outcome.state == "passed":
        return replace(outcome, difference="passes now: remove it from the known differences", reviewed="")
    return replace(outcome, known=known[outcome.name])
