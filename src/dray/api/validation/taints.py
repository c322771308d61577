"""Device taints, the tolerations that answer them, and DeviceTaintRule."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.validation import fields
from dray.api.validation.fields import Errors

EFFECTS = ["NoExecute", "NoSchedule", "None"]
OPERATORS = ["Equal", "Exists"]
MAX_RULE_CONDITIONS = 8


def taint(value: Object, path: str) -> Errors:
    yield from _key_and_value(value, path)
    yield from effect(value, path)


def effect(value: Object, path: str) -> Errors:
    yield from fields.enum(value["effect"], EFFECTS, f"{path}.effect", required=True, declarative=True)


def _key_and_value(value: Object, path: str) -> Errors:
    if not names.is_label_key(value["key"]):
        yield errors.invalid(f"{path}.key", value["key"], names.LABEL_KEY_DETAIL)
    if not names.is_label_value(value.get("value", "")):
        yield errors.invalid(f"{path}.value", value.get("value", ""), names.LABEL_VALUE_DETAIL)


def toleration(value: Object, path: str) -> Errors:
    key, text, operator = value.get("key", ""), value.get("value", ""), value.get("operator", "")
    if key and not names.is_label_key(key):
        yield errors.invalid(f"{path}.key", key, names.LABEL_KEY_DETAIL)
    if operator == "Exists":
        if text:
            yield errors.invalid(f"{path}.value", text, "must be empty for operator Exists")
    elif operator == "Equal":
        if not names.is_label_value(text):
            yield errors.invalid(f"{path}.value", text, names.LABEL_VALUE_DETAIL)
    else:
        yield from fields.enum(operator, OPERATORS, f"{path}.operator", required=True, declarative=True)
    yield from fields.enum(value.get("effect"), EFFECTS, f"{path}.effect", declarative=True)


def tolerations(values: list[Object], path: str) -> Errors:
    for index, value in enumerate(values):
        yield from toleration(value, f"{path}[{index}]")


def validate_rule(rule: Object, old: Object | None = None) -> Errors:
    """An effect equal to the stored one is not looked at, so that unknown stored effects survive."""
    spec = rule["spec"]
    selector = mapping(spec.get("deviceSelector"))
    if selector.get("driver") is not None:
        yield from fields.driver(selector["driver"], "spec.deviceSelector.driver")
    if selector.get("pool") is not None:
        yield from fields.pool(selector["pool"], "spec.deviceSelector.pool")
    if selector.get("device") is not None:
        yield from fields.label(selector["device"], "spec.deviceSelector.device")
    yield from _key_and_value(spec["taint"], "spec.taint")
    if old is None or spec["taint"]["effect"] != old["spec"]["taint"]["effect"]:
        yield from effect(spec["taint"], "spec.taint")


def validate_rule_status(rule: Object, old: Object) -> Errors:
    entries = rule["status"].get("conditions") or []
    if len(entries) > MAX_RULE_CONDITIONS:
        yield errors.too_many("status.conditions", len(entries), MAX_RULE_CONDITIONS)
    yield from fields.conditions(entries, "status.conditions")
