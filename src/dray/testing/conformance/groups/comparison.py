"""Comparison: how the outcome of a case differs from the expected one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Comparison:
    differences: list[str] = field(default_factory=list)
    """Another outcome than the expected one."""
    remarks: list[str] = field(default_factory=list)
    """The expected outcome in another way: on other nodes, with other pods that are alike, or in a later turn."""

    def add(self, text: str, *, counts: bool = True) -> None:
        (self.differences if counts else self.remarks).append(text)
