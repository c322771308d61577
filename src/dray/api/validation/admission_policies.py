"""Admission policies and their bindings: everything but the expressions themselves.

Whether expressions compile is checked on admission, where the language is at hand.
"""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.repeats import repeats
from dray.api.rules import Rules
from dray.api.validation import fields, metadata, resource_rules
from dray.api.validation.fields import Errors

_FAILURE_POLICIES = ["Fail", "Ignore"]
_REASONS = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"]
_ACTIONS = ["Audit", "Deny", "Warn"]
_REINVOCATIONS = ["IfNeeded", "Never"]
_PATCH_TYPES = ["ApplyConfiguration", "JSONPatch"]
_MAX_ANNOTATIONS = 20
_MAX_VALUE = 5 * 1024
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


def validate(policy: Object, rules: Rules) -> Errors:
    spec = policy["spec"]
    yield from _shared(spec)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        missing = "validations or auditAnnotations must contain at least one item"
        yield errors.required("spec.validations", missing)
        yield errors.required("spec.auditAnnotations", missing)
    for index, validation in enumerate(spec.get("validations") or ()):
        yield from _validation(validation, f"spec.validations[{index}]")
    annotations = spec.get("auditAnnotations") or []
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield errors.invalid("spec.auditAnnotations", len(annotations), detail)
    yield from _annotations(annotations, policy["metadata"].get("name") or "")


def validate_mutating(policy: Object, rules: Rules) -> Errors:
    spec = policy["spec"]
    yield from _shared(spec)
    if not spec.get("mutations"):
        yield errors.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(spec.get("mutations") or ()):
        yield from _mutation(mutation, f"spec.mutations[{index}]")
    yield from fields.enum(spec.get("reinvocationPolicy"), _REINVOCATIONS, "spec.reinvocationPolicy", required=True)


def _shared(spec: Object) -> Errors:
    yield from fields.enum(spec.get("failurePolicy"), _FAILURE_POLICIES, "spec.failurePolicy", required=True)
    kind = spec.get("paramKind")
    if kind is not None:
        for member in ("apiVersion", "kind"):
            if not kind.get(member):
                yield errors.required(f"spec.paramKind.{member}")
        if (kind.get("apiVersion") or "").count("/") > 1:
            yield errors.invalid("spec.paramKind.apiVersion", kind["apiVersion"], "must be a group and a version")
    if spec.get("matchConstraints") is None:
        yield errors.required("spec.matchConstraints")
    else:
        yield from resource_rules.match_resources(spec["matchConstraints"], "spec.matchConstraints", complete=True)
    yield from _variables(spec.get("variables") or [])
    yield from resource_rules.conditions(spec.get("matchConditions") or [], "spec.matchConditions")


def _variables(variables: list[Object]) -> Errors:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        at, name = f"spec.variables[{index}]", variable.get("name") or ""
        if not name:
            yield errors.required(f"{at}.name", "name is not specified")
        elif not names.is_identifier(name):
            yield errors.invalid(f"{at}.name", name, "name is not a valid CEL identifier")
        elif name in seen:
            yield errors.duplicate(f"{at}.name", name)
        seen.add(name)
        if not (variable.get("expression") or "").strip():
            yield errors.required(f"{at}.expression", "expression is not specified")


def _validation(validation: Object, at: str) -> Errors:
    expression, message = (validation.get("expression") or "").strip(), validation.get("message") or ""
    if not expression:
        yield errors.required(f"{at}.expression", "expression is not specified")
    if message and not message.strip():
        yield errors.invalid(f"{at}.message", message, "message must be non-empty if specified")
    elif "\n" in message.strip():
        yield errors.invalid(f"{at}.message", message, "message must not contain line breaks")
    elif "\n" in expression and not message and not validation.get("messageExpression"):
        yield errors.required(f"{at}.message", "message must be specified if expression contains line breaks")
    if validation.get("messageExpression") and not validation["messageExpression"].strip():
        yield errors.invalid(
            f"{at}.messageExpression", validation["messageExpression"], "must be non-empty if specified"
        )
    yield from fields.enum(validation.get("reason"), _REASONS, f"{at}.reason")


def _annotations(annotations: list[Object], policy: str) -> Errors:
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        at, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        if not key:
            yield errors.required(f"{at}.key")
        elif not names.is_label_key(f"{policy}/{key}"):
            yield errors.invalid(f"{at}.key", f"{policy}/{key}", names.LABEL_KEY_DETAIL)
        elif key in seen:
            yield errors.duplicate(f"{at}.key", key)
        seen.add(key)
        text = (annotation.get("valueExpression") or "").strip()
        if not text:
            yield errors.required(f"{at}.valueExpression", "valueExpression is not specified")
        elif names.size(text) > _MAX_VALUE:
            yield errors.too_long(f"{at}.valueExpression", _MAX_VALUE)


def _mutation(mutation: Object, at: str) -> Errors:
    kind = mutation.get("patchType")
    yield from fields.enum(kind, _PATCH_TYPES, f"{at}.patchType", required=True)
    for member, needed in (("applyConfiguration", "ApplyConfiguration"), ("jsonPatch", "JSONPatch")):
        given = mutation.get(member)
        if kind == needed:
            if given is None:
                yield errors.required(f"{at}.{member}", f"must be specified when patchType is {needed}")
            elif not (given.get("expression") or "").strip():
                yield errors.required(f"{at}.{member}.expression", "expression is not specified")
        elif given is not None:
            yield errors.invalid(
                f"{at}.{member}", "{" + member + "}", f"must not be specified when patchType is {kind}"
            )


def validate_binding(binding: Object, rules: Rules) -> Errors:
    yield from _bound(binding["spec"])
    actions = binding["spec"].get("validationActions") or []
    if not actions:
        yield errors.required("spec.validationActions")
    for index, (action, is_repeated) in enumerate(zip(actions, repeats(actions), strict=True)):
        yield from fields.enum(action, _ACTIONS, f"spec.validationActions[{index}]", required=True)
        if is_repeated:
            yield errors.duplicate(f"spec.validationActions[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
        yield errors.invalid("spec.validationActions", actions, _BOTH)


def validate_mutating_binding(binding: Object, rules: Rules) -> Errors:
    yield from _bound(binding["spec"])


def _bound(spec: Object) -> Errors:
    if not spec.get("policyName"):
        yield errors.required("spec.policyName")
    else:
        yield from fields.subdomain(spec["policyName"], "spec.policyName")
    if spec.get("paramRef") is not None:
        yield from _param_ref(spec["paramRef"])
    if spec.get("matchResources") is not None:
        yield from resource_rules.match_resources(spec["matchResources"], "spec.matchResources", complete=False)


def _param_ref(reference: Object) -> Errors:
    path = "spec.paramRef"
    if reference.get("name") and reference.get("selector") is not None:
        yield errors.forbidden(f"{path}.name", "name and selector are mutually exclusive")
        yield errors.forbidden(f"{path}.selector", "name and selector are mutually exclusive")
    elif not reference.get("name") and reference.get("selector") is None:
        yield errors.required(path, "one of name or selector must be specified")
    if reference.get("selector") is not None:
        yield from metadata.label_selector(mapping(reference["selector"]), f"{path}.selector")
    at = f"{path}.parameterNotFoundAction"
    if not reference.get("parameterNotFoundAction"):
        yield errors.required(at, "paramRef.parameterNotFoundAction is required")
    else:
        yield from fields.enum(reference["parameterNotFoundAction"], ["Allow", "Deny"], at)
