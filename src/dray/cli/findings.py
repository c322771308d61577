"""A finding of `dray lint`, as a value.

An error is what an API server or a driver would refuse; a warning is a mistake that both would accept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dray.cli.manifests import Manifest

Severity = Literal["error", "warning"]

RULES: Final = (
    "rejected",
    "removed-version",
    "unknown-kind",
    "old-version",
    "string-comparison",
    "ignored-constraint",
    "unknown-request",
    "unused-claim",
    "invalid-config",
    "incomplete-pool",
    "unknown-counter-set",
    "unguarded-attribute",
    "missing-class",
    "missing-claim",
    "missing-template",
    "duplicate-object",
)


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    rule: str
    manifest: Manifest
    field: str
    message: str
    hint: str = ""

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
