"""Errors of questions that have no answer."""

from __future__ import annotations

from collections.abc import Sequence


class InvalidInput(Exception):
    """A manifest, an option or a name is wrong. `problems` has one line for each, with the place and the fix."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class NotThere(InvalidInput):
    """The cluster has no such node, driver or queue, or no devices or queues at all."""
