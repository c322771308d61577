"""Admission of policies and webhooks: expressions compile; how they suit the kinds matched goes into the status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api import errors
from dray.api.catalogue import ADMISSION_GROUP
from dray.api.errors import ErrorType, FieldError
from dray.api.objects import Object
from dray.cel import patterns
from dray.cel import types as t
from dray.cel.environment import Environment
from dray.cel.errors import CompileError
from dray.cel.policy import JSON_PATCH, OBJECT, compile_policy, environment
from dray.cel.types import Type
from dray.server import status
from dray.server.admission.attributes import Attributes
from dray.server.admission.dynamic import expressions, type_checking
from dray.server.admission.dynamic.expressions import Declarations

MAX_EXPRESSIONS = 64 * 1024
"""Limit in bytes for all expressions of a policy or webhook configuration; this many compile in half a second."""


def check_policy(attributes: Attributes) -> None:
    if not attributes.subresource:
        with patterns.limit(patterns.MOST_IN_OBJECT):
            _refuse(attributes, list(_policy(attributes.obj["spec"], mutation=False)))


def note_types(attributes: Attributes) -> None:
    """Checks a policy that compiles against the kinds that it matches, for its status."""
    if attributes.subresource:
        return
    generation = attributes.obj["metadata"].get("generation")
    found = type_checking.warnings(attributes.context, attributes.obj)
    checked: Object = {"expressionWarnings": found} if found else {}
    attributes.obj["status"] = {**(attributes.obj.get("status") or {}), "observedGeneration": generation}
    attributes.obj["status"]["typeChecking"] = checked


def check_mutating_policy(attributes: Attributes) -> None:
    with patterns.limit(patterns.MOST_IN_OBJECT):
        _refuse(attributes, list(_policy(attributes.obj["spec"], mutation=True)))


def check_webhooks(attributes: Attributes) -> None:
    found = list(_size(attributes.obj.get("webhooks"), "webhooks"))
    if found:
        _refuse(attributes, found)
    conditions = environment(webhook=True)
    with patterns.limit(patterns.MOST_IN_OBJECT):
        for index, webhook in enumerate(attributes.obj.get("webhooks") or ()):
            found += _conditions(webhook, f"webhooks[{index}].matchConditions", conditions)
    _refuse(attributes, found)


def _refuse(attributes: Attributes, found: list[FieldError]) -> None:
    if found:
        raise status.invalid(attributes.resource.kind, ADMISSION_GROUP, attributes.name, found)


def _size(holder: Any, path: str) -> Iterator[FieldError]:
    if sum(len(text.encode(errors="surrogatepass")) for text in expressions.texts(holder)) > MAX_EXPRESSIONS:
        detail = f"expressions may not have more than {MAX_EXPRESSIONS} bytes together"
        yield FieldError(ErrorType.TOO_LONG, path, detail)


def _policy(spec: Object, *, mutation: bool) -> Iterator[FieldError]:
    too_long = list(_size(spec, "spec"))
    if too_long:
        yield from too_long
        return
    declared = Declarations({**spec, "variables": []}, mutation=mutation)
    for index, variable in enumerate(spec.get("variables") or ()):
        try:
            declared.add(variable)
        except CompileError as error:
            yield _problem(f"spec.variables[{index}].expression", variable["expression"], error)
            declared.types[variable["name"]] = t.DYN
    whole = declared.environment()
    yield from _conditions(spec, "spec.matchConditions", declared.of_conditions())
    for index, each in enumerate(spec.get("validations") or ()):
        at = f"spec.validations[{index}]"
        yield from _compiles(each["expression"], f"{at}.expression", whole, t.BOOL)
        if each.get("messageExpression"):
            plain = declared.environment(authorizes=False)
            yield from _compiles(each["messageExpression"], f"{at}.messageExpression", plain, t.STRING)
    for index, each in enumerate(spec.get("auditAnnotations") or ()):
        at = f"spec.auditAnnotations[{index}].valueExpression"
        yield from _compiles(each["valueExpression"], at, whole, t.STRING, t.NULL, t.DYN)
    for index, each in enumerate(spec.get("mutations") or ()):
        for member, result in (("applyConfiguration", OBJECT), ("jsonPatch", t.list_of(JSON_PATCH))):
            if each.get(member):
                at = f"spec.mutations[{index}].{member}.expression"
                yield from _compiles(each[member]["expression"], at, whole, result)


def _conditions(holder: Object, path: str, env: Environment) -> Iterator[FieldError]:
    for index, each in enumerate(holder.get("matchConditions") or ()):
        yield from _compiles(each["expression"], f"{path}[{index}].expression", env, t.BOOL)


def _compiles(text: str, path: str, env: Environment, *results: Type) -> Iterator[FieldError]:
    try:
        compile_policy(text, env, *results)
    except CompileError as error:
        yield _problem(path, text, error)


def _problem(path: str, text: str, error: CompileError) -> FieldError:
    said = f"compilation failed: {error}" if error.text else str(error)
    return errors.invalid(path, text, said)
