"""Findings as text, JSON and GitHub workflow commands.

Text is one line a finding, the most important first, and a line that sums up. JSON is a list of objects with
always the same members (see docs/lint.md). GitHub shows workflow commands at the lines of a pull request.
"""

from __future__ import annotations

import os
from typing import Final

import click

from dray.answers.lint import Report, sentence
from dray.answers.linting.findings import Finding
from dray.answers.one_line import one_line
from dray.cli.output_formats import structured

_COLOURS: Final = {"error": "red", "warning": "yellow"}


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
        click.echo(report.summary)


def _structured(report: Report, output: str) -> None:
    for problem in report.problems:
        click.echo(one_line(str(problem)), err=True)
    click.echo(structured(report.document, output), nl=False)


def github(report: Report) -> None:
    for problem in report.problems:
        where = (problem.source, problem.line or 1, problem.column or 1)
        click.echo(_command("error", *where, "unreadable", one_line(problem.message)))
    for finding in report.findings:
        where = (finding.manifest.source, finding.line, finding.column)
        click.echo(_command(finding.severity, *where, finding.rule, sentence(finding)))


def _line(finding: Finding) -> str:
    where = click.style(one_line(f"{finding.manifest.source}:{finding.line}:{finding.column}") + ":", bold=True)
    what = click.style(f"{finding.severity}[{finding.rule}]", bold=True, fg=_COLOURS[finding.severity])
    return f"{where} {what}: {sentence(finding)}"


def _command(severity: str, file: str, line: int, column: int, title: str, message: str) -> str:
    return f"::{severity} file={_property(file)},line={line},col={column},title={title}::{_escaped(message)}"


def _escaped(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")
