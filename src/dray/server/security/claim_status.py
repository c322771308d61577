"""Granular authorization of a claim's status: who may write which part of it.

Beyond `update` on `resourceclaims/status`, a change of the allocation or the reservations needs a grant on
`resourceclaims/binding` for the whole cluster, and a change of a driver's device status one on `resourceclaims/driver`
by the driver's name: `associated-node:<verb>` for a service account that is bound to the node the claim is allocated
on, `arbitrary-node:<verb>` for everybody else. A refusal is a cause inside a 422, not a 403.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dray.api import errors
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.errors import FieldError
from dray.api.objects import Object
from dray.api.quantity import Quantity, QuantityError
from dray.server.authorization import Access, Authorizer, User, forbidden
from dray.server.security.users import bound_node

_RESOURCE = "resourceclaims"
# Free JSON is compared as written; structures behind pointers differ when empty and when absent.
_RAW = frozenset({"data", "parameters"})
_POINTERS = frozenset({"allocation", "networkData", "nodeSelector", "opaque"})


def authorize_status(
    old: Object, new: Object, *, user: User, verb: str, namespace: str, authorizer: Authorizer
) -> list[FieldError]:
    """Returns the parts of the status that the user may not change; `verb` is `update` or `patch`."""
    before, after = old.get("status") or {}, new.get("status") or {}
    found = _check_binding(before, after, user, verb, authorizer)
    if after.get("allocation") is not None:
        found += _check_devices(before, after, user, verb, namespace, authorizer)
    return found


def _check_binding(before: Object, after: Object, user: User, verb: str, authorizer: Authorizer) -> list[FieldError]:
    # The scheduler binds claims of all namespaces, so a grant in one namespace is not enough.
    denial = _denial(authorizer, user, verb, "binding", "", "")
    # The comparison costs more than the authorization, and most writers are allowed.
    if denial is None or all(
        _normal(before.get(member), member) == _normal(after.get(member), member)
        for member in ("allocation", "reservedFor")
    ):
        return []
    text = "changing status.allocation or status.reservedFor requires"
    return [
        errors.forbidden(
            "status.allocation", f'{text} resource="resourceclaims/binding", verb="{verb}" permission: {denial}'
        )
    ]


def _check_devices(
    before: Object, after: Object, user: User, verb: str, namespace: str, authorizer: Authorizer
) -> list[FieldError]:
    changed = _changed_drivers(before.get("devices") or (), after.get("devices") or ())
    if not changed:
        return []
    node = _allocated_node(after["allocation"])
    associated = node is not None and bound_node(user) == node
    verbs = ([f"associated-node:{verb}"] if associated else []) + [f"arbitrary-node:{verb}"]
    found = []
    for driver in sorted(changed):
        denials = [_denial(authorizer, user, asked, "driver", namespace, driver) for asked in verbs]
        if None not in denials:
            text = f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]"'
            found.append(errors.forbidden("status.devices", f"{text} permission: {denials[0]}"))
    return found


def _denial(authorizer: Authorizer, user: User, verb: str, subresource: str, namespace: str, name: str) -> str | None:
    access = Access(verb, RESOURCE_GROUP, _RESOURCE, subresource, namespace, name)
    decision = authorizer.authorize(user, access)
    return None if decision.allowed else str(forbidden(user, access, decision.reason))


def _changed_drivers(before: Any, after: Any) -> set[str]:
    """Returns the drivers with a device entry that was added, removed or changed."""
    old = {_device_key(device): device for device in before}
    changed = set()
    for device in after:
        known = old.pop(_device_key(device), None)
        if known is None or _normal(known) != _normal(device):
            changed.add(str(device.get("driver") or ""))
    return changed | {str(device.get("driver") or "") for device in old.values()}


def _device_key(device: Object) -> tuple[Any, ...]:
    return tuple(device.get(member) or "" for member in ("driver", "pool", "device", "shareID"))


def _allocated_node(allocation: Object) -> str | None:
    """Returns the node of an allocation, if its selector names exactly one."""
    terms: list[Object] = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or ()) != 1:
        return None
    field: Object = terms[0]["matchFields"][0]
    values: list[Any] = field.get("values") or []
    if (field.get("key"), field.get("operator")) != ("metadata.name", "In") or len(values) != 1:
        return None
    return str(values[0])


def _normal(value: Any, member: str = "") -> Any:
    """Returns a value for comparison by meaning: unset equals empty, and quantities have one form."""
    if member in _RAW and value is not None:
        return msgspec.json.encode(value)
    if isinstance(value, Mapping):
        if member == "consumedCapacity":
            return {name: _amount(amount) for name, amount in value.items()} or None
        members = {name: _normal(item, name) for name, item in value.items()}
        present = {name: item for name, item in members.items() if item is not None}
        return present if member in _POINTERS else present or None
    if isinstance(value, list):
        return [_normal(item) for item in value] or None
    return value


def _amount(value: Any) -> Any:
    try:
        return Quantity.parse(value) if isinstance(value, str) else value
    except QuantityError:
        return value
