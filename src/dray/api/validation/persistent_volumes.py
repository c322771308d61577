"""PersistentVolumes and PersistentVolumeClaims: a size, modes of access, one source, and what stays as it was."""

from __future__ import annotations

from typing import Any

from dray.api import errors
from dray.api.objects import Object, mapping, status_of
from dray.api.quantity import Quantity
from dray.api.rules import Rules
from dray.api.validation import amounts, fields, metadata, node_selectors, paths, volumes
from dray.api.validation.fields import Errors

STORAGE = "storage"
_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
_ALONE = "ReadWriteOncePod"
_VOLUME_MODES = ["Block", "Filesystem"]
_POLICIES = ["Delete", "Recycle", "Retain"]
# Everything of a volume's spec that is not its source.
_NOT_SOURCES = frozenset(
    "accessModes capacity claimRef mountOptions nodeAffinity persistentVolumeReclaimPolicy storageClassName "
    "volumeAttributesClassName volumeMode".split()
)
# What must be said of a source; the other ones are taken as they are.
_NEEDED = {
    "hostPath": ("path",),
    "local": ("path",),
    "nfs": ("server", "path"),
    "csi": ("driver", "volumeHandle"),
    "iscsi": ("targetPortal", "iqn"),
}
_KEPT_SPEC = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def validate_volume(volume: Object, rules: Rules) -> Errors:
    spec = volume["spec"]
    if not spec.get("accessModes"):
        yield errors.required("spec.accessModes")
    yield from _access_modes(spec.get("accessModes") or [], "spec.accessModes")
    yield from _capacity(mapping(spec.get("capacity")), "spec.capacity")
    policy = spec.get("persistentVolumeReclaimPolicy")
    yield from fields.enum(policy, _POLICIES, "spec.persistentVolumeReclaimPolicy")
    if (affinity := spec.get("nodeAffinity")) is not None:
        if affinity.get("required") is None:
            yield errors.required("spec.nodeAffinity.required", "must specify required node constraints")
        else:
            yield from node_selectors.validate(affinity["required"], "spec.nodeAffinity.required")
    yield from _source(spec, "spec")
    if mapping(spec.get("hostPath")).get("path") == "/" and policy == "Recycle":
        yield errors.forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
    yield from _class(spec.get("storageClassName"), "spec.storageClassName")
    yield from fields.enum(spec.get("volumeMode"), _VOLUME_MODES, "spec.volumeMode")


def _capacity(capacity: Object, path: str) -> Errors:
    if not capacity:
        yield errors.required(path)
    elif set(capacity) != {STORAGE}:
        yield errors.not_supported(path, capacity, [STORAGE])
    for name, amount in capacity.items():
        yield from amounts.value(name, amount, f"{path}[{name}]")
        yield from _positive(amount, f"{path}[{name}]")


def _positive(amount: str, path: str) -> Errors:
    if Quantity.parse(amount).sign() <= 0:
        yield errors.invalid(path, amount, "must be greater than zero")


def _access_modes(modes: list[str], path: str) -> Errors:
    for mode in modes:
        if mode not in _MODES:
            yield errors.not_supported(path, mode, _MODES)
    if _ALONE in modes and len(modes) > 1:
        yield errors.forbidden(path, f"may not use {_ALONE} with other access modes")


def volume_source(spec: Object) -> str:
    """The name of the first source that a spec has; empty where it has none."""
    return next(iter(_sources(spec)), "")


def _sources(spec: Object) -> list[str]:
    return [member for member in sorted(spec) if member not in _NOT_SOURCES and spec[member] is not None]


def _source(spec: Object, path: str) -> Errors:
    given = _sources(spec)
    if not given:
        yield errors.required(path, "must specify a volume type")
        return
    for member in given[1:]:
        yield errors.forbidden(f"{path}.{member}", "may not specify more than 1 volume type")
    kind = given[0]
    source, at = mapping(spec[kind]), f"{path}.{kind}"
    for member in _NEEDED.get(kind, ()):
        if not source.get(member):
            yield errors.required(f"{at}.{member}")
    yield from paths.no_nul(source, at)
    yield from paths.no_backsteps(str(source.get("path") or ""), f"{at}.path")
    if kind == "hostPath":
        yield from fields.enum(source.get("type"), volumes.HOST_PATH_TYPES, f"{at}.type")
    elif kind == "local" and spec.get("nodeAffinity") is None:
        yield errors.required("metadata.annotations", "Local volume requires node affinity")
    elif kind == "csi" and source.get("driver"):
        yield from fields.driver(source["driver"], f"{at}.driver")


def _class(name: str | None, path: str) -> Errors:
    if name:
        yield from fields.subdomain(name, path)


def validate_volume_update(volume: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_volume(volume, rules)
    spec, before = volume["spec"], old["spec"]
    if _source_of(spec) != _source_of(before):
        path = "spec.persistentvolumesource"
        yield errors.forbidden(path, f"{path} is immutable after creation")
    yield from fields.immutable(spec.get("volumeMode"), before.get("volumeMode"), "spec.volumeMode")
    if before.get("nodeAffinity") is not None:
        yield from fields.immutable(spec.get("nodeAffinity"), before["nodeAffinity"], "spec.nodeAffinity")


def _source_of(spec: Object) -> Object:
    return {member: value for member, value in spec.items() if member not in _NOT_SOURCES}


def validate_claim(claim: Object, rules: Rules) -> Errors:
    yield from validate_claim_spec(claim["spec"], "spec")


def validate_claim_spec(spec: Object, path: str) -> Errors:
    """Validates the spec of a claim, also in a template."""
    if not spec.get("accessModes"):
        yield errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    if spec.get("selector") is not None:
        yield from metadata.label_selector(spec["selector"], f"{path}.selector")
    yield from _access_modes(spec.get("accessModes") or [], f"{path}.accessModes")
    amount = mapping(mapping(spec.get("resources")).get("requests")).get(STORAGE)
    if amount is None:
        yield errors.required(f"{path}.resources[{STORAGE}]")
    else:
        yield from _positive(amount, f"{path}.resources[{STORAGE}]")
    yield from _class(spec.get("storageClassName"), f"{path}.storageClassName")
    yield from fields.enum(spec.get("volumeMode"), _VOLUME_MODES, f"{path}.volumeMode")
    yield from _data_source(spec.get("dataSource"), f"{path}.dataSource")
    yield from _data_source(spec.get("dataSourceRef"), f"{path}.dataSourceRef")
    yield from _class(spec.get("volumeAttributesClassName"), f"{path}.volumeAttributesClassName")


def _data_source(source: Object | None, path: str) -> Errors:
    if source is None:
        return
    for member in ("name", "kind"):
        if not source.get(member):
            yield errors.required(f"{path}.{member}")
    if not source.get("apiGroup") and source.get("kind") not in ("", "PersistentVolumeClaim"):
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield errors.invalid(path, source.get("kind"), detail)


def validate_claim_update(claim: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_claim(claim, rules)
    spec, before = claim["spec"], old["spec"]
    if _kept(spec, before, old) != _kept(before, before, old):
        yield errors.forbidden("spec", _KEPT_SPEC)
    size, earlier = _size(spec), _size(before)
    granted = mapping(status_of(old).get("capacity")).get(STORAGE)
    if size is None or earlier is None or size >= earlier or granted is None:
        return
    if size < Quantity.parse(granted):
        yield errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def _kept(spec: Object, before: Object, old: Object) -> Object:
    """Returns the parts of a claim's spec that are immutable now."""
    found = dict(spec)
    if status_of(old).get("phase") == "Bound":
        resources = mapping(found.get("resources"))
        requests = {name: each for name, each in mapping(resources.get("requests")).items() if name != STORAGE}
        found["resources"] = {**resources, "requests": requests}
        found.pop("volumeAttributesClassName", None)
    # A claim is bound once, and gets the class that became the default after it was made.
    if not before.get("volumeName"):
        found.pop("volumeName", None)
        if before.get("storageClassName") is None:
            found.pop("storageClassName", None)
    return found


def _size(spec: Object) -> Quantity | None:
    amount: Any = mapping(mapping(spec.get("resources")).get("requests")).get(STORAGE)
    return None if amount is None else Quantity.parse(amount)


def validate_claim_status(claim: Object, old: Object, rules: Rules) -> Errors:
    for name, amount in mapping(status_of(claim).get("capacity")).items():
        yield from amounts.value(name, amount, f"status.capacity[{name}]")
