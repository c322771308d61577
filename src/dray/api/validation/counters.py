"""Counters shared by partitions: the sets a pool has, and what a device takes from them."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_COUNTERS = 32
MAX_COMPATIBILITY_GROUPS = 2


def validate_set(counter_set: Object, path: str) -> Errors:
    yield from fields.required_label(counter_set["name"], f"{path}.name")
    yield from _counters(mapping(counter_set.get("counters")), f"{path}.counters")


def validate_consumption(consumption: Object, path: str) -> Errors:
    yield from fields.required_label(consumption["counterSet"], f"{path}.counterSet", declarative=True)
    yield from _counters(mapping(consumption.get("counters")), f"{path}.counters")
    yield from fields.limited(
        consumption.get("compatibilityGroups") or [],
        MAX_COMPATIBILITY_GROUPS,
        f"{path}.compatibilityGroups",
        lambda group, at: fields.label(group, at, declarative=True),
        key=fields.itself,
        declarative=True,
    )


def _counters(counters: Object, path: str) -> Errors:
    if not counters:
        yield errors.required(path, declarative=True)
    elif len(counters) > MAX_COUNTERS:
        yield errors.too_many(path, len(counters), MAX_COUNTERS, declarative=True)
    else:
        for name in counters:
            if not names.is_label(name):
                yield errors.invalid(path, name, names.LABEL_DETAIL, declarative=True)
