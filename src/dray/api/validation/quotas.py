"""ResourceQuota: names that are counted, amounts, and scopes that go with them."""

from __future__ import annotations

from typing import Any

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.api.rules import Rules
from dray.api.validation import amounts
from dray.api.validation.fields import Errors

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OF_PODS = frozenset({*_COMPUTE, *(f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE)})
_INTEGERS = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
_STORAGE = frozenset({"requests.storage", "persistentvolumeclaims"})
_SCOPES = frozenset(
    {
        "BestEffort",
        "CrossNamespacePodAffinity",
        "NotBestEffort",
        "NotTerminating",
        "PriorityClass",
        "Terminating",
        "VolumeAttributesClass",
    }
)
_BY_VALUE = frozenset({"PriorityClass", "VolumeAttributesClass"})
_OPPOSITES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ONLY_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate(quota: Object, rules: Rules) -> Errors:
    spec = quota["spec"]
    hard = mapping(spec.get("hard"))
    yield from _amounts(hard, "spec.hard")
    scopes = spec.get("scopes") or []
    yield from _scopes(scopes, scopes, hard, "spec.scopes", "spec.scopes")
    selector = spec.get("scopeSelector")
    if selector is not None:
        requirements = selector.get("matchExpressions") or []
        path = "spec.scopeSelector.matchExpressions"
        named = [requirement["scopeName"] for requirement in requirements]
        yield from _scopes(named, selector, hard, path, f"{path}.scopeName")
        for requirement in requirements:
            yield from _requirement(requirement, path)


def validate_update(quota: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(quota, rules)
    scopes = quota["spec"].get("scopes") or []
    if set(scopes) != set(old["spec"].get("scopes") or []):
        yield errors.invalid("spec.scopes", scopes, "field is immutable")


def validate_status(quota: Object, old: Object, rules: Rules) -> Errors:
    for member in ("hard", "used"):
        yield from _amounts(mapping(quota["status"].get(member)), f"status.{member}")


def _amounts(given: Object, path: str) -> Errors:
    for name, amount in given.items():
        at = f"{path}[{name}]"
        if not names.is_label_key(name):
            yield errors.invalid(at, name, names.LABEL_KEY_DETAIL)
        elif "/" not in name and not _is_standard(name):
            yield errors.invalid(at, name, "must be a standard resource for quota")
        quantity = Quantity.parse(amount)
        if quantity.sign() < 0:
            yield errors.invalid(at, amount, amounts.NEGATIVE)
        if (name in _INTEGERS or amounts.is_extended(name)) and not quantity.is_integral():
            yield errors.invalid(at, amount, amounts.NOT_INTEGRAL)


def _is_standard(name: str) -> bool:
    return name in _OF_PODS or name in _INTEGERS or name in _STORAGE or _is_huge_pages(name)


def _is_huge_pages(name: str) -> bool:
    return amounts.is_huge_pages(name.removeprefix("requests."))


def _scopes(named: list[str], shown: Any, hard: Object, path: str, name_path: str) -> Errors:
    for scope in named:
        if scope not in _SCOPES:
            yield errors.invalid(name_path, scope if shown is not named else named, "unsupported scope")
        for name in sorted(hard):
            if _is_standard(name) and not _goes_with(scope, name):
                yield errors.invalid(path, shown, "unsupported scope applied to resource")
    for pair in _OPPOSITES:
        if set(pair) <= set(named):
            yield errors.invalid(path, shown, "conflicting scopes")


def _goes_with(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in _STORAGE
    return scope not in _SCOPES or name == "pods" or name in _OF_PODS


def _requirement(requirement: Object, path: str) -> Errors:
    scope, operator, values = requirement["scopeName"], requirement["operator"], requirement.get("values") or []
    if scope in _SCOPES - _BY_VALUE and operator != "Exists":
        yield errors.invalid(f"{path}.operator", operator, _ONLY_EXISTS)
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield errors.required(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield errors.invalid(f"{path}.values", values, detail)
    else:
        yield errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
