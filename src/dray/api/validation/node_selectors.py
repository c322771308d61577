"""NodeSelectors of slices, devices and allocations, and the node affinity of pods."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.validation import fields
from dray.api.validation.fields import Errors

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def validate(selector: Object, path: str) -> Errors:
    terms = selector["nodeSelectorTerms"] or []
    path = f"{path}.nodeSelectorTerms"
    if not terms:
        yield errors.required(path, "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _term(term, f"{path}[{index}]")


def validate_affinity(affinity: Object, path: str) -> Errors:
    """spec.affinity.nodeAffinity of a pod."""
    if affinity.get(_REQUIRED) is not None:
        yield from validate(affinity[_REQUIRED], f"{path}.{_REQUIRED}")
    for index, preferred in enumerate(affinity.get(_PREFERRED) or []):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from fields.weight(preferred["weight"], f"{at}.weight")
        yield from _term(preferred["preference"], f"{at}.preference")


def _term(term: Object, path: str) -> Errors:
    for position, requirement in enumerate(term.get("matchExpressions") or []):
        yield from _expression(requirement, f"{path}.matchExpressions[{position}]")
    for position, requirement in enumerate(term.get("matchFields") or []):
        yield from _field(requirement, f"{path}.matchFields[{position}]")


def _expression(requirement: Object, path: str) -> Errors:
    operator = requirement["operator"]
    values = requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield errors.required(f"{path}.values", f"must be specified when operator is {operator}")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield errors.forbidden(f"{path}.values", f"may not be specified when operator is {operator}")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield errors.required(f"{path}.values", f"must be one value when operator is {operator}")
    else:
        yield errors.invalid(f"{path}.operator", operator, f"not a valid operator: use one of {', '.join(_OPERATORS)}")
    if not names.is_label_key(requirement["key"]):
        yield errors.invalid(f"{path}.key", requirement["key"], names.LABEL_KEY_DETAIL)
    for index, value in enumerate(values):
        if not names.is_label_value(value):
            yield errors.invalid(f"{path}.values[{index}]", value, names.LABEL_VALUE_DETAIL)


def _field(requirement: Object, path: str) -> Errors:
    operator = requirement["operator"]
    values = requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            yield errors.required(
                f"{path}.values",
                f"must be only one value when operator is {operator} for node field selector",
            )
    else:
        yield errors.invalid(f"{path}.operator", operator, "not a valid operator for a field: use In or NotIn")
    if requirement["key"] != "metadata.name":
        yield errors.invalid(f"{path}.key", requirement["key"], "not a valid field: only metadata.name can be selected")
        return
    for index, value in enumerate(values):
        if not names.is_subdomain(value):
            yield errors.invalid(f"{path}.values[{index}]", value, names.SUBDOMAIN_DETAIL)
