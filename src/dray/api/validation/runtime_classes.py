"""RuntimeClass: a handler, what it takes besides containers, and the nodes that have it."""

from __future__ import annotations

from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation import amounts, fields, metadata, tolerations
from dray.api.validation.fields import Errors


def validate(runtime_class: Object, rules: Rules) -> Errors:
    yield from fields.label(runtime_class["handler"], "handler")
    for name, amount in mapping(mapping(runtime_class.get("overhead")).get("podFixed")).items():
        at = f"overhead.podFixed[{name}]"
        yield from amounts.container_name(name, at)
        yield from amounts.value(name, amount, at)
    scheduling = mapping(runtime_class.get("scheduling"))
    yield from metadata.labels(mapping(scheduling.get("nodeSelector")), "scheduling.nodeSelector")
    yield from tolerations.validate(scheduling.get("tolerations") or [], "scheduling.tolerations")


def validate_update(runtime_class: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(runtime_class, rules)
    yield from fields.immutable(runtime_class["handler"], old["handler"], "handler")
