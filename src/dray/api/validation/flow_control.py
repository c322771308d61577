"""flowcontrol.apiserver.k8s.io: which requests belong together, and how many of them are served at once."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

EXEMPT = "exempt"
_HIGHEST_PRECEDENCE = 10_000
_DISTINGUISHERS = ["ByNamespace", "ByUser"]
_LEVELS = ["Exempt", "Limited"]
_RESPONSES = ["Queue", "Reject"]
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_MOST_QUEUES = 10_000_000


def validate_schema(schema: Object, rules: Rules) -> Errors:
    spec = schema["spec"]
    precedence, path = spec["matchingPrecedence"], "spec.matchingPrecedence"
    if precedence <= 0:
        yield errors.invalid(path, precedence, "must be a positive value")
    elif precedence > _HIGHEST_PRECEDENCE:
        yield errors.invalid(path, precedence, f"must not be greater than {_HIGHEST_PRECEDENCE}")
    elif precedence == 1 and schema["metadata"].get("name") != EXEMPT:
        yield errors.invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    if spec.get("distinguisherMethod") is not None:
        yield from fields.enum(
            spec["distinguisherMethod"]["type"], _DISTINGUISHERS, "spec.distinguisherMethod", required=True
        )
    level, path = spec["priorityLevelConfiguration"]["name"], "spec.priorityLevelConfiguration.name"
    if not level:
        yield errors.required(path, "must reference a priority level")
    else:
        yield from fields.subdomain(level, path)
    for index, rule in enumerate(spec.get("rules") or []):
        yield from _rule(rule, f"spec.rules[{index}]")


def validate_schema_update(schema: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_schema(schema, rules)


def _rule(rule: Object, path: str) -> Errors:
    subjects = rule["subjects"] or []
    if not subjects:
        yield errors.required(f"{path}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(subjects):
        yield from _subject(subject, f"{path}.subjects[{index}]")
    resources, others = rule.get("resourceRules") or [], rule.get("nonResourceRules") or []
    if not resources and not others:
        yield errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for member, given, needed in (
        ("resourceRules", resources, ("verbs", "apiGroups", "resources")),
        ("nonResourceRules", others, ("verbs", "nonResourceURLs")),
    ):
        for index, each in enumerate(given):
            yield from _request_rule(each, needed, f"{path}.{member}[{index}]")


def _request_rule(rule: Object, needed: tuple[str, ...], path: str) -> Errors:
    for member in needed:
        values = rule[member] or []
        if not values:
            yield errors.required(f"{path}.{member}", f"{member} must contain at least one value")
        elif "*" in values and len(values) > 1:
            yield errors.invalid(f"{path}.{member}", values, "if '*' is present, must not specify other values")
    if "resources" in needed and not rule.get("clusterScope") and not rule.get("namespaces"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        yield errors.required(f"{path}.namespaces", detail)


def _subject(subject: Object, path: str) -> Errors:
    kind = subject["kind"]
    if kind not in _SUBJECTS:
        yield errors.not_supported(f"{path}.kind", kind, list(_SUBJECTS))
        return
    for each, member in _SUBJECTS.items():
        given: Object | None = subject.get(member)
        if given is None:
            if each == kind:
                yield errors.required(f"{path}.{member}", f"{member} is required when subject kind is '{kind}'")
        elif each == kind and not given["name"]:
            yield errors.required(f"{path}.{member}.name")
        elif each != kind:
            yield errors.forbidden(f"{path}.{member}", f"{member} is forbidden when subject kind is not '{each}'")


def validate_level(level: Object, rules: Rules) -> Errors:
    spec = level["spec"]
    kind, limited = spec["type"], spec.get("limited")
    name = level["metadata"].get("name")
    if (kind == "Exempt") is not (name == EXEMPT):
        detail = "must be 'Exempt' if and only if `name` is 'exempt'"
        yield errors.invalid("spec.type", kind, detail)
    yield from fields.enum(kind, _LEVELS, "spec.type", required=True)
    if kind == "Exempt" and limited is not None:
        yield errors.forbidden("spec.limited", "must be nil if the type is not Limited")
    elif kind == "Limited" and spec.get("exempt") is not None:
        yield errors.forbidden("spec.exempt", "must be nil if the type is Limited")
    if kind == "Limited" and limited is None:
        yield errors.required("spec.limited", "must not be empty when type is Limited")
    elif kind == "Limited":
        yield from _limited(mapping(limited), "spec.limited")


def validate_level_update(level: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_level(level, rules)


def _limited(limited: Object, path: str) -> Errors:
    if (limited.get("nominalConcurrencyShares") or 0) < 0:
        yield errors.invalid(
            f"{path}.nominalConcurrencyShares", limited["nominalConcurrencyShares"], "must be a non-negative integer"
        )
    lendable = limited.get("lendablePercent") or 0
    if not 0 <= lendable <= 100:
        yield errors.invalid(f"{path}.lendablePercent", lendable, "must be between 0 and 100, inclusive")
    response, at = mapping(limited.get("limitResponse")), f"{path}.limitResponse"
    kind, queuing = response.get("type"), response.get("queuing")
    yield from fields.enum(kind, _RESPONSES, f"{at}.type", required=True)
    if kind == "Reject" and queuing is not None:
        yield errors.forbidden(f"{at}.queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif kind == "Queue" and queuing is None:
        yield errors.required(f"{at}.queuing", "must not be empty if limited.limitResponse.type is Limited")
    elif kind == "Queue":
        yield from _queuing(mapping(queuing), f"{at}.queuing")


def _queuing(queuing: Object, path: str) -> Errors:
    for member in ("queueLengthLimit", "queues", "handSize"):
        if queuing[member] <= 0:
            yield errors.invalid(f"{path}.{member}", queuing[member], "must be positive")
    if queuing["queues"] > _MOST_QUEUES:
        yield errors.invalid(f"{path}.queues", queuing["queues"], f"must not be greater than {_MOST_QUEUES}")
    if queuing["handSize"] > queuing["queues"]:
        detail = f"should not be greater than queues ({queuing['queues']})"
        yield errors.invalid(f"{path}.handSize", queuing["handSize"], detail)
