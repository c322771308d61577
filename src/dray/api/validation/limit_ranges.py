"""LimitRange: types that occur once, names of resources, and bounds that leave room for the defaults between them."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.api.rules import Rules
from dray.api.validation import amounts
from dray.api.validation.fields import Errors

_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_MEMBERS = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
# (lower, upper, the member that is named, whose amount is shown, how lower and upper are called)
_ORDER = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)


def validate(limit_range: Object, rules: Rules) -> Errors:
    seen: set[str] = set()
    for index, item in enumerate(limit_range["spec"].get("limits") or ()):
        at, kind = f"spec.limits[{index}]", item.get("type") or ""
        if not names.is_label_key(kind):
            yield errors.invalid(f"{at}.type", kind, names.LABEL_KEY_DETAIL)
        elif "/" not in kind and kind not in _TYPES:
            yield errors.invalid(f"{at}.type", kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            yield errors.duplicate(f"{at}.type", kind)
        seen.add(kind)
        yield from _item(item, kind, at)


def _item(item: Object, kind: str, at: str) -> Errors:
    given = {member: mapping(item.get(member)) for member in _MEMBERS}
    if kind == "Pod":
        for member in ("default", "defaultRequest"):
            if given[member]:
                yield errors.forbidden(f"{at}.{member}", "may not be specified when `type` is 'Pod'")
    if kind == "PersistentVolumeClaim" and not any("storage" in given[member] for member in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield errors.required(f"{at}.limits", detail)
    for member, listed in given.items():
        for name in listed:
            if not (kind == "PersistentVolumeClaim" and name == "storage"):
                yield from amounts.container_name(name, f"{at}.{member}[{name}]")
    for name in sorted({name for listed in given.values() for name in listed}):
        yield from _resource(name, {member: listed[name] for member, listed in given.items() if name in listed}, at)


def _resource(name: str, given: dict[str, str], at: str) -> Errors:
    read = {member: Quantity.parse(amount) for member, amount in given.items()}
    for lower, upper, place, shown, low, high in _ORDER:
        if lower in read and upper in read and read[lower] > read[upper]:
            detail = f"{low} {given[lower]} is greater than {high} {given[upper]}"
            yield errors.invalid(f"{at}.{place}[{name}]", given[shown], detail)
    if "maxLimitRequestRatio" in read:
        yield from _ratio(name, given, read, f"{at}.maxLimitRequestRatio[{name}]")
    limit, asked = read.get("default"), read.get("defaultRequest")
    if limit is not None and asked is not None and limit != asked and not amounts.overcommittable(name):
        detail = f"default value {given['default']} must equal to defaultRequest value {given['defaultRequest']}"
        yield errors.invalid(f"{at}.defaultRequest[{name}]", given["defaultRequest"], f"{detail} in {name}")


def _ratio(name: str, given: dict[str, str], read: dict[str, Quantity], at: str) -> Errors:
    ratio, shown = read["maxLimitRequestRatio"], given["maxLimitRequestRatio"]
    if ratio.nanos < 10**9:
        yield errors.invalid(at, shown, f"ratio {shown} is less than 1")
    least, most = read.get("min"), read.get("max")
    if least is not None and most is not None and least.nanos > 0 and ratio.nanos * least.nanos > most.nanos * 10**9:
        yield errors.invalid(at, shown, f"ratio {shown} is greater than max/min = {most.nanos / least.nanos:f}")
