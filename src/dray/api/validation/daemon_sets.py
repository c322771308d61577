"""DaemonSet: its template and selector, and how it is updated."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields, rolling_updates
from dray.api.validation.fields import Errors

_STRATEGIES = ["OnDelete", "RollingUpdate"]
_COUNTS = tuple(
    "currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady observedGeneration "
    "updatedNumberScheduled numberAvailable numberUnavailable".split()
)


def validate(daemon_set: Object, rules: Rules) -> Errors:
    spec = daemon_set["spec"]
    yield from rolling_updates.selected_template(spec, "DaemonSet")
    yield from fields.not_negative(spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")
    strategy = spec["updateStrategy"]
    if strategy.get("type") not in _STRATEGIES:
        yield errors.not_supported("spec.updateStrategy", strategy, _STRATEGIES)
    elif strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            yield errors.required("spec.updateStrategy.rollingUpdate")
        else:
            yield from _rolling_update(rolling, "spec.updateStrategy.rollingUpdate")


def _rolling_update(rolling: Object, path: str) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from rolling_updates.amount(unavailable, f"{path}.maxUnavailable")
    yield from rolling_updates.amount(surge, f"{path}.maxSurge")
    stays = rolling_updates.is_zero(unavailable), rolling_updates.is_zero(surge)
    if not any(stays):
        yield errors.invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    elif all(stays):
        yield errors.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def validate_update(daemon_set: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(daemon_set, rules)
    yield from fields.immutable(daemon_set["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def validate_status(daemon_set: Object, old: Object, rules: Rules) -> Errors:
    yield from rolling_updates.status(daemon_set, old, _COUNTS)
