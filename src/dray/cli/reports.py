"""Findings as text, JSON and GitHub workflow commands.

Text is one line a finding, the most important first, and a line that sums up. JSON is a list of objects with
always the same members (see docs/lint.md). GitHub shows workflow commands at the lines of a pull request.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from dray.cli.findings import Finding
from dray.cli.output_formats import structured
from dray.yaml.text import ManifestError

_LONGEST: Final = 400
_COLOURS: Final = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class Report:
    findings: Sequence[Finding]
    problems: Sequence[ManifestError] = ()
    objects: int = 0
    unchecked: int = 0


def write(report: Report, output: str) -> None:
    """Prints the report as text, as GitHub's workflow commands, or in a format for programs."""
    if output == "text":
        text(report)
    elif output == "github":
        github(report)
    else:
        _structured(report, output)


def text(report: Report) -> None:
    for problem in report.problems:
        click.echo(one_line(str(problem)), err=True)
    # Without a terminal click leaves colours out.
    colour = False if os.environ.get("NO_COLOR") else None
    for finding in sorted(report.findings, key=lambda finding: finding.importance):
        click.echo(_line(finding), color=colour)
    if report.objects or report.unchecked or not report.problems:
        click.echo(_summary(report))


def _structured(report: Report, output: str) -> None:
    for problem in report.problems:
        click.echo(one_line(str(problem)), err=True)
    rows = [_problem_row(problem) for problem in report.problems] + [_row(each) for each in report.findings]
    click.echo(structured(rows, output), nl=False)


def github(report: Report) -> None:
    for problem in report.problems:
        where = (problem.source, problem.line or 1, problem.column or 1)
        click.echo(_command("error", *where, "unreadable", one_line(problem.message)))
    for finding in report.findings:
        where = (finding.manifest.source, finding.line, finding.column)
        click.echo(_command(finding.severity, *where, finding.rule, _sentence(finding)))


def one_line(message: str) -> str:
    """Line ends and control characters made visible, and no endless values."""
    start = message[: _LONGEST + 1]
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in start)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


def _sentence(finding: Finding) -> str:
    parts = (finding.manifest.title, finding.field, finding.message)
    sentence = one_line(": ".join(part for part in parts if part))
    return f"{sentence} ({one_line(finding.hint)})" if finding.hint else sentence


def _line(finding: Finding) -> str:
    where = click.style(one_line(f"{finding.manifest.source}:{finding.line}:{finding.column}") + ":", bold=True)
    what = click.style(f"{finding.severity}[{finding.rule}]", bold=True, fg=_COLOURS[finding.severity])
    return f"{where} {what}: {_sentence(finding)}"


def _summary(report: Report) -> str:
    errors = sum(finding.severity == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    found = ", ".join(_count(n, what) for n, what in ((errors, "error"), (warnings, "warning")) if n)
    others = f", {report.unchecked} of other kinds not checked" if report.unchecked else ""
    return f"{found or 'nothing found'} in {_count(report.objects, 'object')}{others}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _row(finding: Finding) -> dict[str, Any]:
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


def _command(severity: str, file: str, line: int, column: int, title: str, message: str) -> str:
    return f"::{severity} file={_property(file)},line={line},col={column},title={title}::{_escaped(message)}"


def _escaped(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")
