"""Job policies: what a Job makes of failed pods and of indexes that succeeded."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_RULES = 20
MAX_PATTERNS = 20
MAX_EXIT_CODES = 255
MAX_INDEXES_TEXT = 64 * 1024
_ACTIONS = ["Count", "FailIndex", "FailJob", "Ignore"]
_OPERATORS = ["In", "NotIn"]
_STATUSES = ["False", "True", "Unknown"]


def validate_pod_failure(spec: Object, path: str) -> Errors:
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    rules, template = policy.get("rules") or [], spec["template"]["spec"]
    if len(rules) > MAX_RULES:
        yield errors.too_many(f"{path}.rules", len(rules), MAX_RULES)
    containers = {c["name"] for m in ("containers", "initContainers") for c in template.get(m) or []}
    for index, rule in enumerate(rules):
        yield from _failure_rule(rule, f"{path}.rules[{index}]", spec, containers)


def _failure_rule(rule: Object, path: str, spec: Object, containers: set[str]) -> Errors:
    yield from fields.enum(rule["action"], _ACTIONS, f"{path}.action", required=True)
    if rule["action"] == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield errors.invalid(f"{path}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        yield from _exit_codes(codes, f"{path}.onExitCodes", containers)
    yield from fields.limited(patterns, MAX_PATTERNS, f"{path}.onPodConditions", _pattern)
    if codes is not None and patterns:
        yield errors.invalid(path, None, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif codes is None and not patterns:
        yield errors.invalid(path, None, "specifying one of OnExitCodes and OnPodConditions is required")


def _pattern(pattern: Object, path: str) -> Errors:
    if not names.is_label_key(pattern["type"]):
        yield errors.invalid(f"{path}.type", pattern["type"], names.LABEL_KEY_DETAIL)
    yield from fields.enum(pattern.get("status"), _STATUSES, f"{path}.status", required=True)


def _exit_codes(requirement: Object, path: str, containers: set[str]) -> Errors:
    operator, values, name = requirement["operator"], requirement.get("values") or [], requirement.get("containerName")
    yield from fields.enum(operator, _OPERATORS, f"{path}.operator", required=True)
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield errors.invalid(f"{path}.containerName", name, detail)
    if not values:
        yield errors.invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > MAX_EXIT_CODES:
        yield errors.too_many(f"{path}.values", len(values), MAX_EXIT_CODES)
    seen = set()
    for index, value in enumerate(values):
        if value in seen:
            yield errors.duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
        if value == 0 and operator == "In":
            yield errors.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
    if values != sorted(values):
        yield errors.invalid(f"{path}.values", values, "must be ordered")


def validate_success(spec: Object, path: str) -> Errors:
    policy = spec.get("successPolicy")
    if policy is None:
        return
    rules = policy.get("rules") or []
    if not rules:
        yield errors.required(
            f"{path}.rules", "at least one rules must be specified when the successPolicy is specified"
        )
    if len(rules) > MAX_RULES:
        yield errors.too_many(f"{path}.rules", len(rules), MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _success_rule(rule, f"{path}.rules[{index}]", spec.get("completions") or 0)


def _success_rule(rule: Object, path: str, completions: int) -> Errors:
    count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and text is None:
        yield errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    named = None
    if text is not None:
        if len(text) > MAX_INDEXES_TEXT:
            yield errors.too_long(f"{path}.succeededIndexes", MAX_INDEXES_TEXT)
        try:
            named = sum(last - first + 1 for first, last in intervals(text, completions))
        except ValueError as error:
            yield errors.invalid(f"{path}.succeededIndexes", text, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    if count < 0:
        yield errors.invalid(f"{path}.succeededCount", count, "must be greater than or equal to 0")
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield errors.invalid(f"{path}.succeededCount", count, detail)
    if named is not None and count > named:
        detail = (
            f"must be less than or equal to {named} (the number of indexes in the specified succeededIndexes field)"
        )
        yield errors.invalid(f"{path}.succeededCount", count, detail)


def intervals(text: str, completions: int) -> Iterator[tuple[int, int]]:
    """`1,3-5` as pairs of first and last; each after the one before it, all below the number of completions."""
    past = -1
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"cannot convert {part!r} to an interval of indexes")
        low, high = int(first), int(last or first)
        if high < low or (dash and high == low):
            raise ValueError(f"non-increasing order, previous: {low}, current: {high}")
        if low <= past:
            raise ValueError(f"non-increasing order, previous: {past}, current: {low}")
        if high >= completions:
            raise ValueError(f"too large index: {part!r}")
        past = high
        yield low, high
