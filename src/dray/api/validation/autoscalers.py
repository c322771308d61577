"""HorizontalPodAutoscaler: what it scales, between which bounds, by which measurements."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS = {"AverageValue": "averageValue", "Utilization": "averageUtilization", "Value": "value"}
_SELECT = ["Disabled", "Max", "Min"]
_POLICIES = ["Percent", "Pods"]
_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800


def validate(autoscaler: Object, rules: Rules) -> Errors:
    spec = autoscaler["spec"]
    least, most = spec.get("minReplicas"), spec["maxReplicas"]
    if least is not None and least < 1:
        yield errors.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield errors.invalid("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        yield errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    yield from _reference(spec["scaleTargetRef"], "spec.scaleTargetRef")
    for index, metric in enumerate(spec.get("metrics") or []):
        yield from _metric(metric, f"spec.metrics[{index}]")
    for member in ("scaleUp", "scaleDown"):
        scaling = mapping(spec.get("behavior")).get(member)
        if scaling is not None:
            yield from _scaling(scaling, f"spec.behavior.{member}")


def validate_update(autoscaler: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(autoscaler, rules)


def validate_status(autoscaler: Object, old: Object, rules: Rules) -> Errors:
    for member in ("currentReplicas", "desiredReplicas"):
        value = autoscaler["status"].get(member) or 0
        if value < 0:
            yield errors.invalid(f"status.{member}", value, "must be greater than or equal to 0")


def _reference(reference: Object, path: str) -> Errors:
    for member in ("kind", "name"):
        if not reference[member]:
            yield errors.required(f"{path}.{member}")
        elif not names.is_path_segment(reference[member]):
            yield errors.invalid(f"{path}.{member}", reference[member], "may not contain '/' or '%'")


def _metric(metric: Object, path: str) -> Errors:
    kind = metric["type"]
    if not kind:
        yield errors.required(f"{path}.type", "must specify a metric source type")
        return
    if kind not in _SOURCES:
        yield errors.not_supported(f"{path}.type", kind, list(_SOURCES))
        return
    member = _SOURCES[kind]
    for other in _SOURCES.values():
        if other != member and metric.get(other) is not None:
            detail = "must populate the given metric source only"
            yield errors.forbidden(f"{path}.{other}", detail)
    source = metric.get(member)
    if source is None:
        yield errors.required(f"{path}.{member}", "must populate information for the given metric source")
        return
    identity = source.get("metric", source)
    if not identity.get("name"):
        yield errors.required(f"{path}.{member}.{'metric.' if 'metric' in source else ''}name")
    if kind == "Object":
        yield from _reference(source["describedObject"], f"{path}.{member}.describedObject")
    if kind == "ContainerResource" and not source["container"]:
        yield errors.required(f"{path}.{member}.container")
    yield from _target(source["target"], f"{path}.{member}.target")


def _target(target: Object, path: str) -> Errors:
    if not target["type"]:
        yield errors.required(f"{path}.type", "must specify a metric target type")
    yield from fields.enum(target["type"], list(_TARGETS), f"{path}.type")
    given = [member for member in _TARGETS.values() if target.get(member) is not None]
    if not given:
        yield errors.required(path, "must set either a target value for the metric or a target average")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        yield errors.invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")


def _scaling(scaling: Object, path: str) -> Errors:
    window = scaling.get("stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= _LONGEST_WINDOW:
        detail = f"must be between 0 and {_LONGEST_WINDOW}, inclusive"
        yield errors.invalid(f"{path}.stabilizationWindowSeconds", window, detail)
    yield from fields.enum(scaling.get("selectPolicy"), _SELECT, f"{path}.selectPolicy")
    policies = scaling.get("policies")
    if policies is not None and not policies:
        yield errors.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies or []):
        at = f"{path}.policies[{index}]"
        yield from fields.enum(policy["type"], _POLICIES, f"{at}.type", required=True)
        if policy["value"] <= 0:
            yield errors.invalid(f"{at}.value", policy["value"], "must be greater than zero")
        if not 0 < policy["periodSeconds"] <= _LONGEST_PERIOD:
            yield errors.invalid(f"{at}.periodSeconds", policy["periodSeconds"], f"must be 1 to {_LONGEST_PERIOD}")
