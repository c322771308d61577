"""Quota: how many objects and devices and how much cpu, memory and storage a namespace may ask for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dray.api.objects import Object
from dray.api.quantity import Quantity
from dray.api.quota import charges, names, scopes
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.quota_usage import qualified
from dray.server.resources import key_prefix

_QUOTAS = key_prefix("", "resourcequotas")
_UNCOUNTED = frozenset({("", "Event"), ("events.k8s.io", "Event")})
_COUNTED_AGAIN = frozenset({names.CLAIMS, names.SERVICES, names.VOLUMES})


def charge(attributes: Attributes) -> None:
    """Refuses a write that exceeds a quota of its namespace."""
    context, resource, obj, old = attributes.context, attributes.resource, attributes.obj, attributes.old
    if not attributes.namespace or (resource.group, resource.kind) in _UNCOUNTED or not _counts(attributes):
        return
    records = context.store.list(f"{_QUOTAS}{attributes.namespace}/").records
    if not records:
        context.usage.forget(attributes.namespace)
        return
    quotas = [quota for quota in map(_read, records) if _covers(attributes, quota, obj)]
    for quota in quotas:
        _check_constraints(attributes, quota)
    now = context.clock()
    taken = context.usage.charged(resource, obj, now)
    before = context.usage.charged(resource, old, now) if old is not None else Counter[str]()
    for quota in quotas:
        _check(attributes, quota, taken - before if old is not None and _covers(attributes, quota, old) else taken)


def _read(record: Any) -> Object:
    quota: Object = documents.decode(record.value)
    return quota


def _counts(attributes: Attributes) -> bool:
    """Returns True if the write may change how much quota the object uses."""
    plural, obj, old = qualified(attributes.resource), attributes.obj, attributes.old
    if attributes.subresource:
        return plural == names.PODS and attributes.subresource == "resize"
    if old is None:
        return True
    if plural == names.PODS:
        return scopes.is_terminating(obj) != scopes.is_terminating(old)
    if plural not in _COUNTED_AGAIN:
        return False
    # An update that does not change the spec keeps the same spec object.
    changed = obj["spec"] is not old["spec"] and obj["spec"] != old["spec"]
    return changed or charges.owning_pod(obj) != charges.owning_pod(old)


def _names(attributes: Attributes, quota: Object) -> list[str]:
    """Returns the resource names of the quota that objects of this kind use."""
    plural = qualified(attributes.resource)
    return sorted(name for name in quota["spec"].get("hard") or {} if plural in names.counted(name))


def _covers(attributes: Attributes, quota: Object, obj: Object) -> bool:
    if not _names(attributes, quota):
        return False
    plural = qualified(attributes.resource)
    if plural == names.PODS:
        return scopes.covers(quota, scopes.scoped(obj))
    return scopes.covers(quota, scopes.scoped_volume(obj) if plural == names.VOLUMES else None)


def _check_constraints(attributes: Attributes, quota: Object) -> None:
    if qualified(attributes.resource) == names.PODS:
        missing = names.unstated(attributes.obj, _names(attributes, quota))
        if missing:
            raise attributes.forbid(f"failed quota: {quota['metadata']['name']}: must specify {missing}")


def _check(attributes: Attributes, quota: Object, added: Counter[str]) -> None:
    hard, now = quota["spec"]["hard"], attributes.context.clock()
    exceeded = []
    for name in _names(attributes, quota):
        if added[name] <= 0:
            continue
        used = attributes.context.usage.used(quota, name, attributes.resource, now)
        if used + added[name] > Quantity.parse(hard[name]).nanos:
            amounts = charges.text(name, added[name]), charges.text(name, used), Quantity.parse(hard[name]).canonical()
            exceeded.append((name, *amounts))
    if exceeded:
        requested, taken, limited = (",".join(f"{item[0]}={item[index]}" for item in exceeded) for index in (1, 2, 3))
        text = f"exceeded quota: {quota['metadata']['name']}, requested: {requested}, used: {taken}, limited: {limited}"
        raise attributes.forbid(text)
