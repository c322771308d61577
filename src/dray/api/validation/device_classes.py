"""DeviceClass."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import expressions, fields
from dray.api.validation.fields import Errors

MAX_CONFIGURATIONS = 32


def validate(device_class: Object, rules: Rules, old: Object | None = None) -> Errors:
    """On update a list that did not change is not judged by limits that came later."""
    spec = device_class["spec"]
    old_spec = old["spec"] if old else {}
    items = spec.get("selectors") or []
    if old is None or items != (old_spec.get("selectors") or []):
        yield from expressions.selectors(items, "spec.selectors", rules)
    configurations = spec.get("config") or []
    stored = old is not None and configurations == (old_spec.get("config") or [])
    yield from fields.limited(
        configurations,
        MAX_CONFIGURATIONS,
        "spec.config",
        lambda item, at: fields.opaque_configuration(item, at, stored=stored),
    )
    name = spec.get("extendedResourceName")
    if name is not None:
        for detail in names.extended_resource_problems(name):
            yield errors.invalid("spec.extendedResourceName", name, detail)
