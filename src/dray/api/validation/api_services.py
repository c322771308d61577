"""APIService: a version of a group, and who serves it."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

_HIGHEST_GROUP = 20_000
_HIGHEST_VERSION = 1000


def validate(service: Object, rules: Rules) -> Errors:
    spec = service["spec"]
    group, version = spec.get("group") or "", spec.get("version") or ""
    name = f"{version}.{group}"
    if service["metadata"].get("name", "") != name:
        detail = f'must be `spec.version+"."+spec.group`: "{name}"'
        yield errors.invalid("metadata.name", service["metadata"].get("name", ""), detail)
    if group:
        yield from fields.subdomain(group, "spec.group")
    if not version:
        yield errors.required("spec.version")
    else:
        yield from fields.label(version, "spec.version")
    for member, highest in (("groupPriorityMinimum", _HIGHEST_GROUP), ("versionPriority", _HIGHEST_VERSION)):
        if not 0 < spec[member] <= highest:
            yield errors.invalid(f"spec.{member}", spec[member], f"must be positive and less than {highest}")
    yield from _target(spec, spec.get("service"), "spec")


def _target(spec: Object, target: Object | None, path: str) -> Errors:
    if target is None:
        if spec.get("caBundle"):
            yield errors.invalid(f"{path}.caBundle", "<value omitted>", "local APIServices may not have a caBundle")
        if spec.get("insecureSkipTLSVerify"):
            detail = "local APIServices may not have insecureSkipTLSVerify"
            yield errors.invalid(f"{path}.insecureSkipTLSVerify", True, detail)
        return
    for member in ("namespace", "name"):
        if not target.get(member):
            yield errors.required(f"{path}.service.{member}")
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        detail = "may not be true if caBundle is present"
        yield errors.invalid(f"{path}.insecureSkipTLSVerify", True, detail)


def validate_update(service: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(service, rules)
