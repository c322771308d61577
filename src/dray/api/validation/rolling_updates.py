"""Rolling updates: bounds as numbers or in percent, and the template and status that workloads share."""

from __future__ import annotations

import re

from dray.api import errors, label_selectors
from dray.api.objects import Object, int64, labels_of, mapping
from dray.api.validation import fields, metadata, pods
from dray.api.validation.fields import Errors

_PERCENT = re.compile(r"([0-9]+)%", re.ASCII)
_PERCENT_DETAIL = "a valid percent string must be a numeric string followed by an ending '%'"


def amount(value: int | str | None, path: str, *, most: int | None = 100) -> Errors:
    """A number that is not negative, or a share of at most so many percent."""
    if isinstance(value, str):
        match = _PERCENT.fullmatch(value)
        if match is None:
            yield errors.invalid(path, value, _PERCENT_DETAIL)
        elif most is not None and ((percent := int64(match[1])) is None or percent > most):
            yield errors.invalid(path, value, f"must not be greater than {most}%")
    elif value is not None and value < 0:
        yield errors.invalid(path, value, "must be greater than or equal to 0")


def is_zero(value: int | str | None) -> bool:
    return not value.rstrip("%").strip("0") if isinstance(value, str) else not value


def selected_template(spec: Object, kind: str, *, owner: str = "") -> Errors:
    """The template makes pods that the selector selects and that run for ever; `owner` is who else selects by it."""
    selector = spec.get("selector")
    if selector is not None:
        yield from metadata.label_selector(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield errors.invalid("spec.selector", selector, f"empty selector is invalid for {(owner or kind).lower()}")
    yield from lasting_template(spec["template"], selector, kind)


def lasting_template(template: Object, selector: Object | None, kind: str) -> Errors:
    labels = labels_of(template)
    if selector is None or not label_selectors.from_object(selector)(labels):
        yield errors.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if kind == "StatefulSet":
        # Mounts may be of its volume claims, which are not among the template's volumes: the rest is looked at when
        # pods are made.
        yield from pods.validate_template_metadata(template, "spec.template")
    else:
        yield from pods.validate_template(template, "spec.template")
    policy = template["spec"].get("restartPolicy")
    if policy != "Always":
        yield errors.not_supported("spec.template.spec.restartPolicy", policy, ["Always"])
    if template["spec"].get("activeDeadlineSeconds") is not None:
        path = "spec.template.spec.activeDeadlineSeconds"
        yield errors.forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported")


def status(obj: Object, old: Object, members: tuple[str, ...]) -> Errors:
    given, before = mapping(obj.get("status")), mapping(old.get("status"))
    yield from fields.not_negative(given, (*members, "collisionCount"), "status")
    if (given.get("collisionCount") or 0) < (before.get("collisionCount") or 0):
        yield errors.invalid("status.collisionCount", given.get("collisionCount"), "cannot be decremented")
