"""`dray lint`: what an API server would reject, and mistakes that it would accept.

Reading, examining and printing are separate: `manifests` reads, `examine` gives findings as values,
`reports` prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from dray.api.catalogue import KindVersion, find
from dray.api.errors import FieldError
from dray.api.gates import DEFAULT_GATES, FeatureGates
from dray.api.intake import check
from dray.api.objects import mapping
from dray.cel import Expressions
from dray.cli.claim_specs import pod_spec
from dray.cli.findings import RULES, Finding, error
from dray.cli.hints import hint_for
from dray.cli.identity import identity, is_foreign
from dray.cli.lint_rules import pools, references, selectors, single_objects
from dray.cli.manifests import Manifest, read
from dray.cli.repairs import touches, without
from dray.cli.reports import FORMATS, Report
from dray.cli.stored import Namespaces

_TOGETHER: Final = (*references.RULES, *pools.RULES, *selectors.RULES)


def _parse_gates(ctx: click.Context, param: click.Parameter, value: str | None) -> FeatureGates:
    try:
        return FeatureGates.parse(value) if value else DEFAULT_GATES
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--output", "-o", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option(
    "--feature-gates",
    "gates",
    callback=_parse_gates,
    metavar="A=true,B=false",
    help="Gates of the API server, on top of the defaults of Kubernetes 1.37.",
)
@click.option(
    "--ignore",
    multiple=True,
    type=click.Choice(RULES),
    metavar="RULE",
    help="Leave out the findings of a rule; repeatable.",
)
def lint(files: tuple[str, ...], output: str, gates: FeatureGates, ignore: tuple[str, ...]) -> None:
    """Report what an API server would reject and what its author would regret.

    FILE is YAML or JSON, a directory of them, or - for standard input. Give all files that belong together
    at once: references are looked up in the given files.

    Exit status: 0 nothing found, 1 findings (errors or warnings), 2 a file cannot be read.
    """
    reading = read(files)
    findings = [finding for finding in examine(reading.manifests, gates=gates) if finding.rule not in ignore]
    unchecked = sum(is_foreign(each) and pod_spec(each.document) is None for each in reading.manifests)
    checked = len(reading.manifests) - unchecked
    FORMATS[output](Report(findings, reading.problems, checked, unchecked))
    sys.exit(2 if reading.problems else 1 if findings else 0)


def examine(manifests: list[Manifest], *, gates: FeatureGates = DEFAULT_GATES) -> list[Finding]:
    """Everything there is to say about the objects, in the order of the files."""
    given = references.Given(manifests)
    namespaces = Namespaces(manifests)
    findings = list(references.duplicate_objects(manifests))
    for manifest in manifests:
        rejected = [*identity(manifest), *_rejections(manifest, gates, namespaces)]
        regretted = [finding for rule in single_objects.RULES for finding in rule(manifest)]
        regretted += [finding for rule in _TOGETHER for finding in rule(manifest, given)]
        findings += [*rejected, *_without_twins(regretted, rejected)]
    order = {id(manifest): index for index, manifest in enumerate(manifests)}
    return sorted(findings, key=lambda each: (order[id(each.manifest)], each.line, each.column))


def _without_twins(regretted: Iterable[Finding], rejected: list[Finding]) -> Iterator[Finding]:
    """An API server refuses unknown requests in constraints too, unless it stumbles over something first."""
    refused = {(finding.line, finding.column) for finding in rejected}
    for finding in regretted:
        if finding.rule != "unknown-request" or (finding.line, finding.column) not in refused:
            yield finding


def _rejections(manifest: Manifest, gates: FeatureGates, namespaces: Namespaces) -> Iterator[Finding]:
    entry = find(manifest.api_version, manifest.kind)
    permitted = namespaces.permit_admin_access(manifest.namespace)
    problems = _problems(manifest.document, gates, permitted) if entry else []
    for problem in problems:
        yield _rejection(manifest, problem, problem.field, entry)
    known = {problem.field for problem in problems}
    for field, problem in _pod_template_problems(manifest, gates):
        if field not in known:
            yield _rejection(manifest, problem, field, find("v1", "Pod"))


def _problems(document: dict[str, Any], gates: FeatureGates, permitted: bool) -> list[FieldError]:
    """What an API server would refuse, and what it would refuse next: it stops at what it cannot decode."""
    problems = check(document, gates=gates, expressions=Expressions(), admin_namespace=permitted)
    fields = [each.field for each in problems if each.type.structural]
    if not all(fields):
        return problems
    if fields:
        rest = without(document, fields)
        more = check(rest, gates=gates, expressions=Expressions(), admin_namespace=permitted)
        problems += [each for each in more if not touches(each.field, fields)]
    return problems


def _rejection(manifest: Manifest, problem: FieldError, field: str, entry: KindVersion | None) -> Finding:
    message = problem.detail if problem.type.structural and problem.detail else problem.message
    return error("rejected", manifest, field, message, hint_for(problem, entry))


def _pod_template_problems(manifest: Manifest, gates: FeatureGates) -> Iterator[tuple[str, FieldError]]:
    """What is wrong with the pod template of a workload, found by checking the pod it would make."""
    template = pod_spec(manifest.document)
    if template is None or manifest.kind == "Pod" or not template.value:
        return
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": mapping(template.value)}
    for problem in _problems(pod, gates, True):
        if problem.field.startswith("spec"):
            yield template.path + problem.field.removeprefix("spec"), problem
