"""StorageVersionMigration: which resource is written anew, and how far that came."""

from __future__ import annotations

import re
from typing import Final

from dray.api import errors, names
from dray.api.objects import Object, is_true
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

_PLURAL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_OUTCOMES: Final = {"Succeeded": "Success", "Failed": "Failed"}


def validate(migration: Object, rules: Rules) -> Errors:
    resource, path = migration["spec"]["resource"], "spec.resource"
    if not resource["resource"]:
        yield errors.required(f"{path}.resource", "resource is required to be set")
    elif not _PLURAL.fullmatch(resource["resource"]):
        detail = "a DNS-1035 label: lower case letters, digits and '-', starting with a letter, at most 63 characters"
        yield errors.invalid(f"{path}.resource", resource["resource"], detail)
    if resource["group"] and not names.is_subdomain(resource["group"]):
        yield errors.invalid(f"{path}.group", resource["group"], names.SUBDOMAIN_DETAIL)


def validate_update(migration: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(migration, rules)
    yield from fields.immutable(migration["spec"], old["spec"], "spec")


def validate_status(migration: Object, old: Object, rules: Rules) -> Errors:
    status, before = migration["status"], old["status"]
    given, known = status.get("resourceVersion") or "", before.get("resourceVersion") or ""
    if given and (not given.isdecimal() or given.startswith("0")):
        yield errors.invalid("status.resourceVersion", given, "resource version is not well formed")
    yield from fields.conditions(status.get("conditions") or [], "status.conditions")
    if known and given != known:
        yield errors.invalid("status.resourceVersion", given, "field is immutable")
    path, conditions = "status.conditions", status.get("conditions")
    if all(is_true(migration, outcome) for outcome in _OUTCOMES):
        detail = "Both success and failed conditions cannot be true at the same time"
        yield errors.invalid(path, conditions, detail)
    for condition, name in _OUTCOMES.items():
        if is_true(old, condition) and not is_true(migration, condition):
            yield errors.invalid(path, conditions, f"{name} condition cannot be set to false once it is true")
