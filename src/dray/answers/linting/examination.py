"""Examines manifests: what an API server would reject, and mistakes that it would accept.

`examine` returns findings as values. It does not check kinds that the catalogue does not have, unless they claim to be
in an API group that the catalogue knows in full.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from dray.answers.linting.findings import Finding, error
from dray.answers.linting.hints import hint_for, without_source
from dray.answers.linting.rules import pools, references, selectors, single_objects
from dray.answers.manifests.claim_specs import made_pod_spec
from dray.answers.manifests.reading import Manifest
from dray.answers.manifests.stored import Namespaces
from dray.api.catalogue import KINDS, RESOURCE_GROUP, SCHEDULING_GROUP, KindVersion, find, split_api_version
from dray.api.errors import FieldError
from dray.api.gates import DEFAULT_GATES, FeatureGates
from dray.api.intake import check
from dray.api.objects import Object, mapping
from dray.cel import Expressions
from dray.yaml.text import segments

_DRA_KINDS: Final = frozenset(kind.name for kind in KINDS if kind.group == RESOURCE_GROUP)
_REMOVED_VERSIONS: Final = {"v1alpha1": "1.27", "v1alpha2": "1.31"}
_ONCE_IN_V1ALPHA3: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"})
_RULES_FOR_SEVERAL: Final = (*references.RULES, *pools.RULES, *selectors.RULES)


def without(document: Object, fields: Iterable[str]) -> Object:
    """Returns a copy without the fields. Items of lists become None instead, so that others keep their index."""
    changed = copy.deepcopy(document)
    for field in fields:
        *above, last = segments(field) or [""]
        place: Any = changed
        for step in above:
            place = _child(place, step)
        if isinstance(place, dict):
            place.pop(last, None)
        elif isinstance(place, list) and _child(place, last) is not None:
            place[int(last)] = None
    return changed


def touches(field: str, others: Iterable[str]) -> bool:
    """Returns True if the field is one of the others, or is above or below one of them."""
    steps = segments(field)
    for other in others:
        these = segments(other)
        shorter = min(len(steps), len(these))
        if steps[:shorter] == these[:shorter]:
            return True
    return False


def _child(place: Any, step: str) -> Any:
    """Returns a field of a mapping or an item of a list; None if there is none."""
    if isinstance(place, dict):
        return place.get(step)
    if isinstance(place, list) and step.isdecimal() and int(step) < len(place):
        return place[int(step)]
    return None


def identity_findings(manifest: Manifest) -> Iterator[Finding]:
    """Yields what is wrong with apiVersion and kind."""
    for member in ("apiVersion", "kind"):
        value = manifest.document.get(member)
        if not isinstance(value, str) or not value:
            hint = "every object has apiVersion and kind; is this a Kubernetes manifest?"
            yield error("unknown-kind", manifest, member, "Required value: must be a non-empty string", hint)
            return
    if find(manifest.api_version, manifest.kind) is not None:
        return
    group, version = split_api_version(manifest.api_version)
    if group == RESOURCE_GROUP and _is_removed(version, manifest.kind):
        yield _removed_version(manifest, version)
    elif group in (RESOURCE_GROUP, SCHEDULING_GROUP):
        yield _not_served(manifest, group)
    elif manifest.kind in _DRA_KINDS and _is_misspelt_group(group):
        message = f"there is no kind {manifest.kind} in {manifest.api_version}"
        yield error("unknown-kind", manifest, "apiVersion", message, f"write {RESOURCE_GROUP}/v1")


def _is_misspelt_group(group: str) -> bool:
    return not group or bool(difflib.get_close_matches(group, [RESOURCE_GROUP], cutoff=0.8))


def is_foreign(manifest: Manifest) -> bool:
    """Returns True if the kind is unknown, so that only the pod template of the object is checked, if it has one."""
    return find(manifest.api_version, manifest.kind) is None and not any(identity_findings(manifest))


def _is_removed(version: str, kind: str) -> bool:
    return version in _REMOVED_VERSIONS or (version == "v1alpha3" and kind in _ONCE_IN_V1ALPHA3)


def _removed_version(manifest: Manifest, version: str) -> Finding:
    since = f" since Kubernetes {_REMOVED_VERSIONS[version]}" if version in _REMOVED_VERSIONS else ""
    message = f"{manifest.api_version} {manifest.kind} was removed: no API server serves it{since}"
    return error("removed-version", manifest, "apiVersion", message, "dray convert rewrites it")


def _not_served(manifest: Manifest, group: str) -> Finding:
    served = {kind.name: kind for kind in KINDS if kind.group == group}
    message = f"there is no kind {manifest.kind} in {manifest.api_version}"
    if manifest.kind in served:
        versions = ", ".join(version.name for version in served[manifest.kind].versions)
        return error("unknown-kind", manifest, "apiVersion", message, f"{manifest.kind} has the versions {versions}")
    close = difflib.get_close_matches(manifest.kind, served, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else f"{group} has {', '.join(served)}"
    return error("unknown-kind", manifest, "kind", message, hint)


def examine(manifests: list[Manifest], *, gates: FeatureGates = DEFAULT_GATES) -> list[Finding]:
    """Returns all findings about the objects, in the order of the files."""
    given = references.Given(manifests)
    namespaces = Namespaces(manifests)
    findings = list(references.duplicate_objects(manifests))
    for manifest in manifests:
        rejected = [*identity_findings(manifest), *_rejections(manifest, gates, namespaces)]
        accepted = [finding for rule in single_objects.RULES for finding in rule(manifest)]
        accepted += [finding for rule in _RULES_FOR_SEVERAL for finding in rule(manifest, given)]
        findings += [*rejected, *_without_duplicates(accepted, rejected)]
    order = {id(manifest): index for index, manifest in enumerate(manifests)}
    return sorted(findings, key=lambda finding: (order[id(finding.manifest)], finding.line, finding.column))


def _without_duplicates(accepted: Iterable[Finding], rejected: list[Finding]) -> Iterator[Finding]:
    """Yields the findings about accepted mistakes that are not rejections at the same place already.

    An API server rejects unknown requests in constraints too, unless it rejects the object for another reason first.
    """
    rejected_places = {(finding.line, finding.column) for finding in rejected}
    for finding in accepted:
        if finding.rule != "unknown-request" or (finding.line, finding.column) not in rejected_places:
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
    """Returns what an API server would reject, and what it would reject once it can decode all fields."""
    problems = check(document, gates=gates, expressions=Expressions(), admin_namespace=permitted)
    fields = [problem.field for problem in problems if problem.type.structural]
    if not all(fields):
        return problems
    if fields:
        rest = without(document, fields)
        more = check(rest, gates=gates, expressions=Expressions(), admin_namespace=permitted)
        problems += [problem for problem in more if not touches(problem.field, fields)]
    return problems


def _rejection(manifest: Manifest, problem: FieldError, field: str, entry: KindVersion | None) -> Finding:
    message = problem.detail if problem.type.structural and problem.detail else problem.message
    hint = hint_for(problem, entry)
    return Finding("error", "rejected", manifest, field, without_source(message), hint, problem.type.structural)


def _pod_template_problems(manifest: Manifest, gates: FeatureGates) -> Iterator[tuple[str, FieldError]]:
    """Yields problems of the pod template of a workload, by checking the pod that it would make."""
    template = made_pod_spec(manifest.document)
    if template is None or manifest.kind == "Pod" or not template.value:
        return
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": mapping(template.value)}
    for problem in _problems(pod, gates, True):
        if problem.field.startswith("spec"):
            yield template.path + problem.field.removeprefix("spec"), problem
