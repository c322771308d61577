"""Lint rules about single objects.

A rule is a function from a manifest to findings. Its name with dashes is the name of the rule in outputs. Rules take
documents of any shape and yield nothing for other kinds. Rules that compare objects are in references.py.

Comparisons of quantities and versions as strings are found in the text of an expression. In
`device.attributes["gpu.example.com"].memory >= "16Gi"` the right side is a string, so "9Gi" is more than "16Gi", and an
attribute that is not a string makes the selector fail. The pattern is an attribute or capacity, an operator, and a
string literal that can be read as a quantity, a version or a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dray.answers.linting.findings import Finding, error, warning
from dray.answers.manifests.claim_specs import (
    Spec,
    cel_expressions,
    claim_spec,
    class_spec,
    container_claims,
    pod_claims,
    pod_spec,
    request_bodies,
    request_names,
)
from dray.answers.manifests.reading import Manifest
from dray.api.catalogue import RESOURCE_GROUP, find
from dray.api.objects import mapping, sequence, text

if TYPE_CHECKING:
    from dray.drivers.opaque_configs import ConfigProblem

_LITERAL = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_INDEX = rf"\s*\[\s*{_LITERAL}\s*\]"
_ACCESS = rf"device\.(?:attributes|capacity){_INDEX}(?:\s*\.\s*\??\w+|{_INDEX})"
_OPERATOR = r"[<>]=?|[=!]="
_FORWARD = re.compile(rf"(?P<access>{_ACCESS})\s*(?P<operator>{_OPERATOR})\s*(?P<literal>{_LITERAL})")
_BACKWARD = re.compile(rf"(?P<literal>{_LITERAL})\s*(?P<operator>{_OPERATOR})\s*(?P<access>{_ACCESS})")

_QUANTITY = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[KMGTPE]i|[mkMGTPE])\Z")
_NUMBER = re.compile(r"[0-9]+\Z")
_VERSION = re.compile(r"v?(?P<numbers>[0-9]+(?:\.[0-9]+){0,2})(?P<rest>[-+][0-9A-Za-z.+-]+)?\Z")
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LONGEST_EXPRESSION: Final = 10240


class StringComparison(NamedTuple):
    """A comparison with a string literal, and the expression that was probably meant."""

    text: str
    what: str
    instead: str


def string_comparisons(expression: str) -> Iterator[StringComparison]:
    for pattern in (_FORWARD, _BACKWARD):
        for found in pattern.finditer(expression):
            comparison = _comparison(found, mirrored=pattern is _BACKWARD)
            if comparison is not None:
                yield comparison


def _comparison(found: re.Match[str], *, mirrored: bool) -> StringComparison | None:
    literal = found["literal"][1:-1]
    operator = _MIRRORED.get(found["operator"], found["operator"]) if mirrored else found["operator"]
    access = " ".join(found["access"].split())
    shown = " ".join(found[0].split())
    if _QUANTITY.match(literal):
        capacity = access.replace("device.attributes", "device.capacity", 1)
        return StringComparison(shown, "a quantity", f'{capacity}.compareTo(quantity("{literal}")) {operator} 0')
    if operator not in _MIRRORED:
        return None
    if _NUMBER.match(literal) and "version" not in access.lower():
        return StringComparison(shown, "a number", f"{access} {operator} {literal}")
    if (version := _VERSION.match(literal)) is not None:
        full = _full_version(version)
        return StringComparison(shown, "a version", f'{access}.compareTo(semver("{full}")) {operator} 0')
    return None


def _full_version(version: re.Match[str]) -> str:
    """Returns a semantic version: three numbers without leading zeros."""
    numbers = [number.lstrip("0") or "0" for number in version["numbers"].split(".")]
    return ".".join(numbers + ["0"] * (3 - len(numbers))) + (version["rest"] or "")


def old_version(manifest: Manifest) -> Iterator[Finding]:
    entry = find(manifest.api_version, manifest.kind)
    if entry is not None and entry.deprecated:
        hint = f"dray convert writes it as {RESOURCE_GROUP}/v1" if entry.group == RESOURCE_GROUP else ""
        yield warning("old-version", manifest, "apiVersion", entry.deprecated, hint)


def string_comparison(manifest: Manifest) -> Iterator[Finding]:
    for path, expression in _expressions(manifest.document):
        for found in string_comparisons(expression[:_LONGEST_EXPRESSION]):
            message = f'{found.text} compares {found.what} as a string, and as strings "9" comes after "16"'
            yield warning("string-comparison", manifest, path, message, f"write {found.instead}")


def ignored_constraint(manifest: Manifest) -> Iterator[Finding]:
    claim = claim_spec(manifest.document)
    for constraint in claim.items("devices", "constraints") if claim else ():
        if constraint.value.get("matchAttribute") and constraint.value.get("distinctAttribute"):
            field = f"{constraint.path}.distinctAttribute"
            message = "ignored, because matchAttribute is in the same constraint"
            yield warning("ignored-constraint", manifest, field, message, "make it a constraint of its own")


def unknown_request(manifest: Manifest) -> Iterator[Finding]:
    claim = claim_spec(manifest.document)
    if claim is None:
        return
    known = request_names(claim)
    for member in ("constraints", "config"):
        for entry in claim.items("devices", member):
            for index, name in enumerate(sequence(entry.value.get("requests"))):
                if isinstance(name, str) and name not in known:
                    field = f"{entry.path}.requests[{index}]"
                    hint = f"the claim has {', '.join(sorted(filter(None, known))) or 'no requests'}"
                    yield warning("unknown-request", manifest, field, f"no request is named {name!r}", hint)


def unused_claim(manifest: Manifest) -> Iterator[Finding]:
    pod = pod_spec(manifest.document)
    if pod is None:
        return
    used = {text(entry.value.get("name")) for entry in container_claims(pod)}
    for claim in pod_claims(pod):
        if claim.name and claim.name not in used:
            message = f"no container uses the claim {claim.name!r}: its devices are allocated, but not used"
            hint = f"add {{name: {claim.name}}} to resources.claims of a container"
            yield warning("unused-claim", manifest, claim.path, message, hint)


def invalid_config(manifest: Manifest) -> Iterator[Finding]:
    for entry in _configs(manifest.document):
        opaque = mapping(entry.value.get("opaque"))
        driver = text(opaque.get("driver"))
        problem = config_problem(driver, opaque.get("parameters")) if driver else None
        if problem is not None:
            field = f"{entry.path}.opaque.parameters{f'.{problem.member}' if problem.member else ''}"
            hint = f"the driver {driver} refuses the claim when a pod with it starts"
            yield error("invalid-config", manifest, field, problem.message, hint)
            continue
        for name in sequence(entry.value.get("requests")):
            classes = _classes_of(manifest.document, name)
            if classes and not any(fits_class(driver, opaque.get("parameters"), each) for each in classes):
                message = f"not a configuration for request {name!r}, whose devices are of class {classes[0]}"
                yield error("invalid-config", manifest, f"{entry.path}.opaque.parameters.kind", message)


def fits_class(driver: str, parameters: Any, class_name: str) -> bool:
    from dray.drivers import opaque_configs

    return opaque_configs.fits_class(driver, parameters, class_name)


def config_problem(driver: str, parameters: Any) -> ConfigProblem | None:
    # Few manifests have parameters, and the types of all drivers load slowly.
    from dray.drivers.opaque_configs import problem_of

    return problem_of(driver, parameters)


RULES: Final[tuple[Callable[[Manifest], Iterator[Finding]], ...]] = (
    old_version,
    string_comparison,
    ignored_constraint,
    unknown_request,
    unused_claim,
    invalid_config,
)


def _configs(document: dict[str, Any]) -> Iterator[Spec]:
    """Yields the entries of `config` of a claim, a template or a class."""
    if (of_class := class_spec(document)) is not None:
        yield from of_class.items("config")
    if (claim := claim_spec(document)) is not None:
        yield from claim.items("devices", "config")


def _classes_of(document: dict[str, Any], name: Any) -> list[str]:
    """Returns the classes of a request, or of its alternatives. `name` is as a config has it."""
    claim = claim_spec(document)
    return [
        text(body.value.get("deviceClassName"))
        for request in (claim.items("devices", "requests") if claim else ())
        for body in request_bodies(request)
        if name in (request.value.get("name"), f"{request.value.get('name')}/{body.value.get('name')}")
    ]


def _expressions(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the CEL selectors of a claim, a template or a class, each with its path."""
    if (of_class := class_spec(document)) is not None:
        yield from cel_expressions(of_class)
    claim = claim_spec(document)
    for request in claim.items("devices", "requests") if claim else ():
        for body in request_bodies(request):
            yield from cel_expressions(body)
