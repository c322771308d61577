"""HorizontalPodAutoscaler of autoscaling/v1, converted to and from v2.

v1 knows one measurement: how much of their cpu the pods use. What else v2 says (other metrics, behavior, conditions) is
kept as JSON in annotations of the v1 form, under Kubernetes' names for them, so that a client of v1 that reads and
writes loses nothing. An annotation that cannot be read is dropped, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dray.api import schema
from dray.api.objects import Object, mapping, mappings, walk

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS, _STATUSES = _PREFIX + "metrics", _PREFIX + "current-metrics"
_BEHAVIOR, _CONDITIONS = _PREFIX + "behavior", _PREFIX + "conditions"
_OLDER: Final = tuple(f"{_PREFIX}scale-{way}-tolerance" for way in ("down", "up"))
_ANNOTATIONS: Final = frozenset({_METRICS, _STATUSES, _BEHAVIOR, _CONDITIONS, *_OLDER})
_DEFAULT_PERCENT: Final = 80

# Per source of a metric: the members of v1, and where v2 has them.
_Names = dict[str, dict[str, tuple[str, ...]]]
_METRIC_NAME = {"metricName": ("metric", "name")}
_SELECTED = {**_METRIC_NAME, "selector": ("metric", "selector")}
_USE: Final = {
    "name": ("name",),
    "targetAverageUtilization": ("target", "averageUtilization"),
    "targetAverageValue": ("target", "averageValue"),
}
_CURRENT_USE: Final = {
    "name": ("name",),
    "currentAverageUtilization": ("current", "averageUtilization"),
    "currentAverageValue": ("current", "averageValue"),
}
_SPEC_NAMES: Final[_Names] = {
    "object": {
        "target": ("describedObject",),
        **_SELECTED,
        "targetValue": ("target", "value"),
        "averageValue": ("target", "averageValue"),
    },
    "pods": {**_SELECTED, "targetAverageValue": ("target", "averageValue")},
    "resource": _USE,
    "containerResource": {**_USE, "container": ("container",)},
    "external": {
        **_METRIC_NAME,
        "metricSelector": ("metric", "selector"),
        "targetValue": ("target", "value"),
        "targetAverageValue": ("target", "averageValue"),
    },
}
_STATUS_NAMES: Final[_Names] = {
    "object": {
        "target": ("describedObject",),
        **_SELECTED,
        "currentValue": ("current", "value"),
        "averageValue": ("current", "averageValue"),
    },
    "pods": {**_SELECTED, "currentAverageValue": ("current", "averageValue")},
    "resource": _CURRENT_USE,
    "containerResource": {**_CURRENT_USE, "container": ("container",)},
    "external": {
        **_METRIC_NAME,
        "metricSelector": ("metric", "selector"),
        "currentValue": ("current", "value"),
        "currentAverageValue": ("current", "averageValue"),
    },
}
# Quantities that v1 cannot leave out.
_ALWAYS: Final = {
    "object": ("targetValue", "currentValue"),
    "pods": ("targetAverageValue", "currentAverageValue"),
    "resource": ("currentAverageValue",),
    "containerResource": ("currentAverageValue",),
    "external": ("currentValue",),
}


def from_v1(document: Object) -> Object:
    """`document` has the apiVersion of v2 already, and the members of v1."""
    spec, status = dict(mapping(document.get("spec"))), dict(mapping(document.get("status")))
    kept = walk(document, "metadata", "annotations")
    metrics = _read(kept.get(_METRICS), "[]autoscaling_v2.MetricSpec", _several(_SPEC_NAMES)) or []
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None or not metrics:
        metrics = [*metrics, _cpu(_DEFAULT_PERCENT if percent is None else percent)]
    spec["metrics"] = metrics
    behavior = _read(kept.get(_BEHAVIOR), "autoscaling_v2.HorizontalPodAutoscalerBehavior", _lowered)
    if behavior:
        spec["behavior"] = behavior
    current = _read(kept.get(_STATUSES), "[]autoscaling_v2.MetricStatus", _several(_STATUS_NAMES))
    used = status.pop("currentCPUUtilizationPercentage", None)
    if current is None and used is not None:
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}]
    status["currentMetrics"] = current
    conditions = _read(kept.get(_CONDITIONS), "[]autoscaling_v2.HorizontalPodAutoscalerCondition", lambda value: value)
    if conditions:
        status["conditions"] = conditions
    return {**document, "metadata": _annotated(document, {}), "spec": spec, "status": status}


def to_v1(document: Object) -> Object:
    """`document` has the apiVersion of v1 already, and the members of v2."""
    spec, status = dict(mapping(document.get("spec"))), dict(mapping(document.get("status")))
    kept: dict[str, Any] = {}
    metrics = mappings(spec.pop("metrics", None))
    percents = [percent for metric in metrics if (percent := _percent(metric)) is not None]
    if percents:
        spec["targetCPUUtilizationPercentage"] = percents[0]
    kept[_METRICS] = [_renamed(metric, _SPEC_NAMES) for metric in metrics if _percent(metric) is None]
    kept[_BEHAVIOR] = _raised(spec.pop("behavior", None))
    current = mappings(status.pop("currentMetrics", None))
    for metric in current:
        resource = mapping(metric.get("resource")) if metric.get("type") == "Resource" else {}
        used = mapping(resource.get("current")).get("averageUtilization")
        if resource.get("name") == "cpu" and used is not None:
            status["currentCPUUtilizationPercentage"] = used
    kept[_STATUSES] = [_renamed(metric, _STATUS_NAMES) for metric in current]
    kept[_CONDITIONS] = status.pop("conditions", None)
    return {**document, "metadata": _annotated(document, kept), "spec": spec, "status": status}


def _cpu(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _percent(metric: Object) -> int | None:
    """How much of the cpu, of a metric that v1 has a member for."""
    resource = mapping(metric.get("resource")) if metric.get("type") == "Resource" else {}
    found: int | None = mapping(resource.get("target")).get("averageUtilization")
    return found if resource.get("name") == "cpu" else None


def _annotated(document: Object, kept: dict[str, Any]) -> Object:
    """The metadata with those annotations that hold something, and none of before."""
    import msgspec

    others = {
        name: text for name, text in walk(document, "metadata", "annotations").items() if name not in _ANNOTATIONS
    }
    added = {name: msgspec.json.encode(value).decode() for name, value in kept.items() if value}
    metadata = {name: value for name, value in mapping(document.get("metadata")).items() if name != "annotations"}
    return {**metadata, "annotations": {**others, **added}} if others or added else metadata


def _read(text: Any, type_name: str, change: Callable[[Any], Any]) -> Any:
    """Decodes an annotation into its v2 form; None if it does not fit the type."""
    import msgspec

    if not isinstance(text, str):
        return None
    try:
        found, problems = schema.read(change(msgspec.json.decode(text)), type_name)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if problems else found


def _several(names: _Names) -> Callable[[Any], Any]:
    def change(items: Any) -> Any:
        if not isinstance(items, list):
            return items
        return [_restored(item, names) if isinstance(item, dict) else item for item in items]

    return change


def _restored(metric: Object, names: _Names) -> Object:
    """Converts a metric of v1 to v2."""
    restored = {name: value for name, value in metric.items() if name not in names}
    for source, members in names.items():
        if not isinstance(given := metric.get(source), dict):
            continue
        made: Object = {}
        for old, path in members.items():
            if given.get(old) is not None:
                _put(made, path, given[old])
        if names is _SPEC_NAMES:
            made["target"] = _typed(source, mapping(made.get("target")))
        restored[source] = made
    return restored


def _typed(source: str, target: Object) -> Object:
    """v1 does not say what a target is; it follows from what it has."""
    if target.get("averageUtilization") is not None:
        return {**target, "type": "Utilization"}
    if source == "object" and target.get("averageValue") is not None and target.get("value") == "0":
        target = {name: value for name, value in target.items() if name != "value"}
    valued = target.get("averageValue") is None if source == "object" else target.get("value") is not None
    return {**target, "type": "Value" if valued else "AverageValue"}


def _renamed(metric: Object, names: _Names) -> Object:
    """Converts a metric of v2 to v1."""
    renamed: Object = {"type": metric.get("type", "")}
    for source, members in names.items():
        if not isinstance(given := metric.get(source), dict):
            continue
        made = {
            old: found for old, path in members.items() if (found := walk(given, *path[:-1]).get(path[-1])) is not None
        }
        for name in _ALWAYS.get(source, ()):
            if name in members:
                made.setdefault(name, "0")
        renamed[source] = made
    return renamed


def _put(holder: Object, path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        holder = holder.setdefault(step, {})
    holder[path[-1]] = value


def _raised(value: Any) -> Any:
    """Kubernetes writes the behavior with members that begin with a capital, and reads them however they are spelt."""
    if isinstance(value, dict):
        return {name[:1].upper() + name[1:]: _raised(inner) for name, inner in value.items()}
    return [_raised(item) for item in value] if isinstance(value, list) else value


def _lowered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name[:1].lower() + name[1:]: _lowered(inner) for name, inner in value.items() if inner is not None}
    return [_lowered(item) for item in value] if isinstance(value, list) else value
