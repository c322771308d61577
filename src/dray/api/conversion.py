"""Conversion between the versions of a kind.

v1 and v1beta2 have the same fields; so have all versions of DeviceTaintRule, Workload and PodGroup. v1beta1 of
the older kinds differs: a request carries its members directly instead of in `exactly`, and a device carries its
members in `basic`. HorizontalPodAutoscaler of v1 has a module of its own. Each difference is one pair of functions;
everything else passes through untouched, unknown fields included, so that nothing is lost in either direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dray.api import autoscaler_versions, catalogue, schema
from dray.api.cluster_kinds import AUTOSCALING_GROUP
from dray.api.errors import ErrorType, FieldError
from dray.api.objects import Object, mapping

_EXACT_MEMBERS = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)
# Plain values in v1beta1, where zero means "not set"; all the other members may be given and empty.
_ZERO_IS_UNSET = ("deviceClassName", "allocationMode", "count")


class ConversionError(ValueError):
    """The object has no such version or cannot be read; `problems` lists the fields that prevent it."""

    def __init__(self, message: str, problems: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


def unreadable(problems: Sequence[FieldError]) -> ConversionError:
    return ConversionError("; ".join(map(str, problems)), problems)


def convert(document: Object, version: str) -> Object:
    """Returns a copy of the document in another version of its kind. Raises ConversionError."""
    api_version, kind = document.get("apiVersion", ""), document.get("kind", "")
    source = catalogue.find(api_version, kind)
    if source is None:
        raise ConversionError(f"{kind} of {api_version} is not a kind dray knows")
    target = source.entry.version(version)
    if target is None:
        known = ", ".join(item.name for item in source.entry.versions)
        raise ConversionError(f"{kind} has no version {version!r}: it has {known}")
    converted = {**document, "apiVersion": target.api_version}
    old_shape, new_shape = has_old_shape(source), has_old_shape(target)
    if old_shape == new_shape:
        return converted
    return (_FROM_OLD if old_shape else _TO_OLD)[source.group, kind](converted)


def has_old_shape(target: catalogue.KindVersion) -> bool:
    """Whether the members of a version differ from those of the hub."""
    return (target.group, target.kind) in _FROM_OLD and target.version == _OLD[target.group]


def oddities(document: Object) -> list[FieldError]:
    """Returns wrong types and unknown fields, which `convert` keeps as they are."""
    source = catalogue.find(document.get("apiVersion", ""), document.get("kind", ""))
    return schema.read(document, source.schema)[1] if source else []


def wrong_types(document: Object) -> list[FieldError]:
    return [oddity for oddity in oddities(document) if oddity.type is not ErrorType.UNKNOWN_FIELD]


def once(name: Any, *sides: Iterable[str]) -> None:
    """Raises ConversionError where members that come to stand beside each other have the same name."""
    first, second = map(set, sides)
    if both := sorted(first & second):
        raise ConversionError(f"{name or 'an entry'} has {both[0]} twice, on two levels: remove one")


def _inside(document: Object, path: tuple[str, ...], change: Callable[[Any], Any]) -> Object:
    """The document with `change` applied to what lies at `path`, if anything does."""
    step, *rest = path
    inner = document.get(step)
    if inner is None or (rest and not isinstance(inner, dict)):
        return document
    return {**document, step: _inside(inner, tuple(rest), change) if rest else change(inner)}


def _each(change: Callable[[Object], Object]) -> Callable[[Any], Any]:
    def change_items(items: Any) -> Any:
        return (
            [change(item) if isinstance(item, dict) else item for item in items] if isinstance(items, list) else items
        )

    return change_items


def _nest_request(request: Object) -> Object:
    given = {name: request[name] for name in _EXACT_MEMBERS if request.get(name) is not None}
    if not any(value or name not in _ZERO_IS_UNSET for name, value in given.items()):
        return {name: value for name, value in request.items() if name not in _EXACT_MEMBERS}
    rest = {name: value for name, value in request.items() if name not in _EXACT_MEMBERS and name != "name"}
    if "exactly" in rest:
        once(request.get("name"), given, rest["exactly"])
        given = {**given, **rest.pop("exactly")}
    head = {"name": request["name"]} if "name" in request else {}
    return {**head, "exactly": given, **rest}


def _flatten_request(request: Object) -> Object:
    exactly = request.get("exactly")
    if exactly is None:
        flat = {name: value for name, value in request.items() if name != "exactly"}
        return {**flat, "deviceClassName": ""}
    if not isinstance(exactly, dict):
        return request
    head = {"name": request["name"]} if "name" in request else {}
    rest = {name: value for name, value in request.items() if name not in ("name", "exactly")}
    once(request.get("name"), exactly, rest)
    return {**head, **exactly, **rest}


def _unwrap_device(device: Object) -> Object:
    basic = mapping(device.get("basic"))
    if not isinstance(basic, dict):
        return device
    once(device.get("name"), device.keys() - {"basic"}, basic)
    return {**{name: value for name, value in device.items() if name != "basic"}, **basic}


def _wrap_device(device: Object) -> Object:
    basic = {name: value for name, value in device.items() if name != "name"}
    head = {"name": device["name"]} if "name" in device else {}
    return {**head, "basic": basic}


def _slice_from_v1beta1(document: Object) -> Object:
    def change(spec: Any) -> Any:
        if not isinstance(spec, dict):
            return spec
        # Plain values there: an empty name and false mean "not set".
        kept = {
            name: value
            for name, value in spec.items()
            if name not in ("nodeName", "allNodes") or value not in ("", False)
        }
        return _inside(kept, ("devices",), _each(_unwrap_device))

    return _inside(document, ("spec",), change)


def _slice_to_v1beta1(document: Object) -> Object:
    return _inside(document, ("spec", "devices"), _each(_wrap_device))


def _requests_at(path: tuple[str, ...], change: Callable[[Object], Object]) -> Callable[[Object], Object]:
    return lambda document: _inside(document, path, _each(change))


_CLAIM_REQUESTS = ("spec", "devices", "requests")
_TEMPLATE_REQUESTS = ("spec", "spec", "devices", "requests")

# By group, the version whose shape differs.
_OLD = {catalogue.RESOURCE_GROUP: "v1beta1", AUTOSCALING_GROUP: "v1"}
_Changes = dict[tuple[str, str], Callable[[Object], Object]]
_FROM_OLD: _Changes = {
    (catalogue.RESOURCE_GROUP, "ResourceClaim"): _requests_at(_CLAIM_REQUESTS, _nest_request),
    (catalogue.RESOURCE_GROUP, "ResourceClaimTemplate"): _requests_at(_TEMPLATE_REQUESTS, _nest_request),
    (catalogue.RESOURCE_GROUP, "ResourceSlice"): _slice_from_v1beta1,
    (AUTOSCALING_GROUP, "HorizontalPodAutoscaler"): autoscaler_versions.from_v1,
}
_TO_OLD: _Changes = {
    (catalogue.RESOURCE_GROUP, "ResourceClaim"): _requests_at(_CLAIM_REQUESTS, _flatten_request),
    (catalogue.RESOURCE_GROUP, "ResourceClaimTemplate"): _requests_at(_TEMPLATE_REQUESTS, _flatten_request),
    (catalogue.RESOURCE_GROUP, "ResourceSlice"): _slice_to_v1beta1,
    (AUTOSCALING_GROUP, "HorizontalPodAutoscaler"): autoscaler_versions.to_v1,
}
