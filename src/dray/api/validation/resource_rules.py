"""Rules of admission policies and webhooks: operations, groups, versions, resources and scopes that they match."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.validation import fields, metadata
from dray.api.validation.fields import Errors

_OPERATIONS = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
_SCOPES = ["*", "Cluster", "Namespaced"]
_POLICIES = ["Equivalent", "Exact"]
MAX_CONDITIONS = 64


def match_resources(given: Object, path: str, *, complete: bool) -> Errors:
    """`complete`: those of a policy, which must say what it is about."""
    for member in ("namespaceSelector", "objectSelector"):
        if given.get(member) is None:
            if complete:
                yield errors.required(f"{path}.{member}")
        else:
            yield from metadata.label_selector(given[member], f"{path}.{member}")
    if complete and not given.get("resourceRules"):
        yield errors.required(f"{path}.resourceRules")
    for member in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(given.get(member) or ()):
            at = f"{path}.{member}[{index}]"
            yield from resource_rule(rule, at)
            for number, name in enumerate(rule.get("resourceNames") or ()):
                if not names.is_path_segment(name):
                    yield errors.invalid(f"{at}.resourceNames[{number}]", name, "must be a valid path segment name")
    yield from fields.enum(given.get("matchPolicy"), _POLICIES, f"{path}.matchPolicy", required=complete)


def resource_rule(rule: Object, path: str) -> Errors:
    operations = rule.get("operations") or []
    if not operations:
        yield errors.required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        yield errors.invalid(f"{path}.operations", operations, detail)
    for index, operation in enumerate(operations):
        yield from fields.enum(operation, _OPERATIONS, f"{path}.operations[{index}]", required=True)
    for member in ("apiGroups", "apiVersions", "resources"):
        yield from _listed(rule.get(member) or [], f"{path}.{member}", member)
    yield from fields.enum(rule.get("scope"), _SCOPES, f"{path}.scope")


def _listed(given: list[str], path: str, member: str) -> Errors:
    if not given:
        yield errors.required(path)
    if len(given) > 1 and "*" in given and member != "resources":
        what = {"apiGroups": "API groups", "apiVersions": "API versions"}[member]
        yield errors.invalid(path, given, f"if '*' is present, must not specify other {what}")
    if member == "apiGroups":
        return
    for index, each in enumerate(given):
        if not each:
            yield errors.required(f"{path}[{index}]")
        elif member == "resources":
            yield from _resource(each, index, given, path)


def _resource(each: str, index: int, given: list[str], path: str) -> Errors:
    resource, _, part = each.partition("/")
    if each == "*/*" and len(given) > 1:
        yield errors.invalid(path, given, "if '*/*' is present, must not specify other resources")
    elif part and part != "*" and f"{resource}/*" in given:
        detail = f"if '{resource}/*' is present, must not specify {each}"
        yield errors.invalid(f"{path}[{index}]", each, detail)
    elif part and resource != "*" and f"*/{part}" in given:
        yield errors.invalid(f"{path}[{index}]", each, f"if '*/{part}' is present, must not specify {each}")


def conditions(given: list[Object], path: str) -> Errors:
    """Match conditions; whether their expressions compile is checked where the language is at hand."""
    if len(given) > MAX_CONDITIONS:
        yield errors.too_many(path, len(given), MAX_CONDITIONS)
    seen: set[str] = set()
    for index, condition in enumerate(given):
        at, name = f"{path}[{index}]", condition.get("name") or ""
        if not (condition.get("expression") or "").strip():
            yield errors.required(f"{at}.expression")
        if not name:
            yield errors.required(f"{at}.name")
        elif not names.is_label_key(name):
            yield errors.invalid(f"{at}.name", name, names.LABEL_KEY_DETAIL)
        elif name in seen:
            yield errors.duplicate(f"{at}.name", name)
        seen.add(name)
