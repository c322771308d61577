"""Quota: how many objects, and how many devices of a class, a namespace may ask for."""

from __future__ import annotations

from typing import Any

from dray.api.quantity import Quantity
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

Object = dict[str, Any]

_QUOTAS = key_prefix("", "resourcequotas")
_NANO = 10**9


def charge(attributes: Attributes) -> None:
    """Refuses a write that would take more than a quota of its namespace leaves."""
    if not attributes.namespace or attributes.subresource:
        return
    records = attributes.context.store.list(f"{_QUOTAS}{attributes.namespace}/").records
    if not records:
        return
    usage, resource = attributes.context.usage, attributes.resource
    added = usage.charged(resource, attributes.obj) - usage.charged(resource, attributes.old)
    for record in records:
        quota = documents.decode(record.value)
        if quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"):
            continue
        _check(attributes, quota, added)


def _check(attributes: Attributes, quota: Object, added: dict[str, int]) -> None:
    hard = quota["spec"].get("hard") or {}
    exceeded = []
    for name in sorted(added.keys() & hard.keys()):
        used = attributes.context.usage.used(name, attributes.resource, attributes.namespace)
        if (used + added[name]) * _NANO > Quantity.parse(hard[name]).nanos:
            exceeded.append((name, added[name], used, hard[name]))
    if exceeded:
        requested, taken, limited = (",".join(f"{item[0]}={item[index]}" for item in exceeded) for index in (1, 2, 3))
        text = f"exceeded quota: {quota['metadata']['name']}, requested: {requested}, used: {taken}, limited: {limited}"
        raise attributes.forbid(text)
