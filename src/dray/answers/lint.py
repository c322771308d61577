"""`lint`: what an API server would reject in manifests, and mistakes that it would accept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dray.answers.linting.examination import examine, is_foreign
from dray.answers.linting.findings import Finding
from dray.answers.manifests.claim_specs import pod_spec
from dray.answers.manifests.given import Manifests, read_given
from dray.answers.manifests.reading import Reading
from dray.answers.one_line import one_line
from dray.api.gates import DEFAULT_GATES, FeatureGates
from dray.api.objects import Object
from dray.yaml.text import ManifestError


@dataclass(frozen=True, slots=True)
class Report:
    """The findings, the files that cannot be read, and how many objects were checked."""

    findings: Sequence[Finding]
    problems: Sequence[ManifestError] = ()
    objects: int = 0
    unchecked: int = 0

    @property
    def document(self) -> list[Object]:
        """The document that `dray lint -o json` prints: a row for each unreadable file and for each finding."""
        return [*map(_problem_row, self.problems), *map(_finding_row, self.findings)]

    @property
    def text(self) -> str:
        """A line for each finding, the most important first, and a line that sums up."""
        lines = [one_line(str(problem)) for problem in self.problems]
        lines += [_finding_line(finding) for finding in sorted(self.findings, key=lambda finding: finding.importance)]
        return "".join(f"{line}\n" for line in (*lines, self.summary))

    @property
    def summary(self) -> str:
        """The numbers of errors, warnings and objects, in one line."""
        errors = sum(finding.severity == "error" for finding in self.findings)
        warnings = len(self.findings) - errors
        found = ", ".join(_count(n, what) for n, what in ((errors, "error"), (warnings, "warning")) if n)
        others = f", {self.unchecked} of other kinds not checked" if self.unchecked else ""
        return f"{found or 'nothing found'} in {_count(self.objects, 'object')}{others}"


def lint(manifests: Manifests, *, gates: FeatureGates = DEFAULT_GATES, ignore: Iterable[str] = ()) -> Report:
    """Returns the findings about the manifests. References are looked up among them. `ignore` has rules to skip."""
    return lint_reading(read_given(manifests), gates=gates, ignore=ignore)


def lint_reading(reading: Reading, *, gates: FeatureGates, ignore: Iterable[str]) -> Report:
    """Returns the findings about manifests that were read before."""
    ignored = set(ignore)
    findings = [finding for finding in examine(reading.manifests, gates=gates) if finding.rule not in ignored]
    unchecked = sum(is_foreign(manifest) and pod_spec(manifest.document) is None for manifest in reading.manifests)
    return Report(findings, reading.problems, len(reading.manifests) - unchecked, unchecked)


def _finding_line(finding: Finding) -> str:
    where = one_line(f"{finding.manifest.source}:{finding.line}:{finding.column}")
    return f"{where}: {finding.severity}[{finding.rule}]: {sentence(finding)}"


def sentence(finding: Finding) -> str:
    """Returns the object, the field, the message and the hint of a finding, in one line."""
    parts = (finding.manifest.title, finding.field, finding.message)
    sentence = one_line(": ".join(part for part in parts if part))
    return f"{sentence} ({one_line(finding.hint)})" if finding.hint else sentence


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _finding_row(finding: Finding) -> dict[str, Any]:
    manifest = finding.manifest
    return {
        "file": manifest.source,
        "line": finding.line,
        "column": finding.column,
        "severity": finding.severity,
        "rule": finding.rule,
        "apiVersion": manifest.api_version,
        "kind": manifest.kind,
        "namespace": manifest.namespace,
        "name": manifest.name,
        "field": finding.field,
        "message": finding.message,
        "hint": finding.hint,
    }


def _problem_row(problem: ManifestError) -> dict[str, Any]:
    empty = dict.fromkeys(("apiVersion", "kind", "namespace", "name", "field", "hint"), "")
    where = {"file": problem.source, "line": problem.line, "column": problem.column}
    return {**where, "severity": "error", "rule": "unreadable", **empty, "message": problem.message}
