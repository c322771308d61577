"""The priority that an API server gives pods and groups when they are created, from their PriorityClasses."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.objects import Object, key_of, mapping, spec_of, text
from dray.api.suggestions import did_you_mean
from dray.api.validation.priority_classes import SYSTEM_CLASSES


class Priorities:
    def __init__(self, classes: Sequence[Object]) -> None:
        self._classes = {key_of(each)[1]: mapping(each) for each in classes}
        defaults = [each for each in self._classes.values() if each.get("globalDefault")]
        self._default = min(defaults, key=lambda each: int(each.get("value") or 0), default=None)

    def applied(self, obj: Object) -> Object:
        """Returns the pod or group with the priority of its class; any other priority of a manifest is ignored."""
        spec = spec_of(obj)
        found = self._class(text(spec.get("priorityClassName"))) or {}
        policy = {"preemptionPolicy": found["preemptionPolicy"]} if found.get("preemptionPolicy") else {}
        return {**obj, "spec": {**spec, "priority": found.get("value") or 0, **policy}}

    def problem(self, obj: Object) -> str:
        """Returns why an API server would refuse the object; empty if it has a class that exists, or none."""
        name = text(spec_of(obj).get("priorityClassName"))
        if not name or self._class(name) is not None:
            return ""
        similar = did_you_mean(name, (*self._classes, *SYSTEM_CLASSES))
        return f"PriorityClass {name} not found{f'; {similar}' if similar else ''}"

    def _class(self, name: str) -> Object | None:
        if name in SYSTEM_CLASSES:
            return {"value": SYSTEM_CLASSES[name]}
        return self._classes.get(name) if name else self._default
