"""Comparison: how the outcome of a case differs from the expected one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Comparison:
    differences: list[str] = field(default_factory=list)
    """Differences from the expected outcome."""
    remarks: list[str] = field(default_factory=list)
    """Ways in which the expected outcome was reached differently: other nodes, equal pods, or a later turn."""

    def add(self, text: str, *, counts: bool = True) -> None:
        (self.differences if counts else self.remarks).append(text)
