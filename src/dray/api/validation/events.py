"""Event: about an object of its own namespace, and where it is of the newer form, who says so and what was done.

Kubernetes checks both faces of an event in the form of the core group and names the fields as they are called there.
"""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation.fields import Errors

_MAX_TEXT = 128
_MAX_NOTE = 1024
_OTHER_NAMESPACE = "does not match event.namespace"
_TYPES = ("Normal", "Warning")
_UNSET = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}
_FIXED = {
    "regarding": "involvedObject",
    "reason": "reason",
    "note": "message",
    "type": "type",
    "eventTime": "eventTime",
    "action": "action",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
    **_UNSET,
}


def validate(event: Object, rules: Rules) -> Errors:
    """Validates an Event of core/v1."""
    yield from _event(event, event["involvedObject"], "reportingComponent", event.get("message", ""))


def validate_new(event: Object, rules: Rules) -> Errors:
    """Validates an Event of events.k8s.io/v1: members that only core/v1 has must be unset."""
    yield from _event(event, mapping(event.get("regarding")), "reportingController", event.get("note", ""))
    yield from _series(event)
    if not event.get("eventTime"):
        yield errors.required("eventTime")
    if event.get("type") not in _TYPES:
        yield errors.invalid("type", "", f"has invalid value: {event.get('type', '')}")
    for member, path in _UNSET.items():
        if event.get(member):
            yield errors.invalid(path, "", "needs to be unset")


def validate_new_update(event: Object, old: Object, rules: Rules) -> Errors:
    yield from _event(event, mapping(event.get("regarding")), "reportingController", event.get("note", ""))
    if event.get("series") != old.get("series"):
        yield from _series(event)
    for member, path in _FIXED.items():
        if (event.get(member) or None) != (old.get(member) or None):
            yield errors.invalid(path, event.get(member), "field is immutable")


def _series(event: Object) -> Errors:
    series = event.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            yield errors.invalid("series.count", "", "should be at least 2")
        if not series.get("lastObservedTime"):
            yield errors.required("series.lastObservedTime")


def _event(event: Object, about: Object, controller: str, note: str) -> Errors:
    own, other = event["metadata"].get("namespace", ""), about.get("namespace", "")
    if not event.get("eventTime"):
        if other != own and not (not other and own == "default"):
            yield errors.invalid("involvedObject.namespace", other, _OTHER_NAMESPACE)
        return
    if not other and own not in ("default", "kube-system"):
        yield errors.invalid("involvedObject.namespace", other, _OTHER_NAMESPACE)
    reporter = event.get(controller) or ""
    if not reporter:
        yield errors.required(controller)
    if not names.is_label_key(reporter):
        yield errors.invalid(controller, reporter, names.LABEL_KEY_DETAIL)
    for member in ("reportingInstance", "action", "reason"):
        text = event.get(member) or ""
        if not text:
            yield errors.required(member)
        if names.size(text) > _MAX_TEXT:
            yield errors.invalid(member, "", f"can have at most {_MAX_TEXT} characters")
    if names.size(note) > _MAX_NOTE:
        yield errors.invalid("message", "", f"can have at most {_MAX_NOTE} characters")
