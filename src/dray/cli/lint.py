"""`dray lint`: what an API server would reject, and mistakes that it would accept."""

from __future__ import annotations

import sys

import click

from dray.answers.lint import lint_reading
from dray.answers.linting.findings import RULES
from dray.answers.manifests.reading import read
from dray.api.gates import DEFAULT_GATES, FeatureGates
from dray.cli.output_formats import output_option
from dray.cli.reports import write


def _parse_gates(ctx: click.Context, param: click.Parameter, value: str | None) -> FeatureGates:
    try:
        return FeatureGates.parse(value) if value else DEFAULT_GATES
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_option("text", "json", "yaml", "github")
@click.option(
    "--feature-gates",
    "gates",
    callback=_parse_gates,
    metavar="A=true,B=false",
    help="Feature gates of the API server. Default: those of Kubernetes 1.37.",
)
@click.option(
    "--ignore",
    multiple=True,
    type=click.Choice(RULES),
    metavar="RULE",
    help="Rule to ignore; repeatable.",
)
def lint(files: tuple[str, ...], output: str, gates: FeatureGates, ignore: tuple[str, ...]) -> None:
    """Check manifests for errors and common mistakes.

    An API server would reject errors. It would accept warnings, but the result would surprise the author. The first
    line is the most important one: errors come before warnings, and causes before their consequences.

    FILE is a YAML or JSON file, a directory, or - for standard input. Give all files that belong together in one call:
    references are looked up in the given files only.

    \b
    Examples:
      dray lint examples/mistakes
      dray lint manifests/ --ignore missing-class
      dray lint -o github claim.yaml pod.yaml

    Exit status: 0 nothing found, 1 findings (errors or warnings), 2 a file cannot be read.
    """
    report = lint_reading(read(files), gates=gates, ignore=ignore)
    write(report, output)
    sys.exit(2 if report.problems else 1 if report.findings else 0)
