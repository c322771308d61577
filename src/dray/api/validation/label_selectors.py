"""LabelSelector: labels, and requirements with an operator and the values it takes."""

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.validation import metadata
from dray.api.validation.fields import Errors

_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def validate(selector: Object, path: str) -> Errors:
    yield from metadata.labels(mapping(selector.get("matchLabels")), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or []):
        yield from _requirement(requirement, f"{path}.matchExpressions[{index}]")


def _requirement(requirement: Object, path: str) -> Errors:
    operator, values = requirement["operator"], requirement.get("values") or []
    if operator in _WITH_VALUES and not values:
        yield errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT_VALUES and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield errors.forbidden(f"{path}.values", detail)
    elif operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        yield errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    if not names.is_label_key(requirement["key"]):
        yield errors.invalid(f"{path}.key", requirement["key"], names.LABEL_KEY_DETAIL)
    for index, value in enumerate(values):
        if not names.is_label_value(value):
            yield errors.invalid(f"{path}.values[{index}]", value, names.LABEL_VALUE_DETAIL)
