"""Finding: something that `dray lint` reports.

An error is rejected by an API server or a driver; a warning is a mistake that both accept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dray.answers.manifests.reading import Manifest

Severity = Literal["error", "warning"]

RULES: Final = (
    "unknown-kind",
    "removed-version",
    "rejected",
    "invalid-config",
    "duplicate-object",
    "missing-class",
    "missing-template",
    "missing-claim",
    "unknown-request",
    "incomplete-pool",
    "unknown-counter-set",
    "unguarded-attribute",
    "string-comparison",
    "ignored-constraint",
    "unused-claim",
    "old-version",
)
"""Names of the rules, the most important first: a finding of one rule often causes findings of later rules."""


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    rule: str
    manifest: Manifest
    field: str
    message: str
    hint: str = ""
    structural: bool = False
    """True if the object cannot be decoded at this field, which may cause other findings about the object."""

    @property
    def importance(self) -> tuple[bool, int, bool]:
        """The sort key: errors come before warnings, and causes before their consequences."""
        return self.severity != "error", RULES.index(self.rule), not self.structural

    @property
    def line(self) -> int:
        return self.manifest.place.find(self.field).line

    @property
    def column(self) -> int:
        return self.manifest.place.find(self.field).column


def error(rule: str, manifest: Manifest, field: str, message: str, hint: str = "") -> Finding:
    return Finding("error", rule, manifest, field, message, hint)


def warning(rule: str, manifest: Manifest, field: str, message: str, hint: str = "") -> Finding:
    return Finding("warning", rule, manifest, field, message, hint)
