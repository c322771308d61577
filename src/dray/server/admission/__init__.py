"""Admission: what the server checks and fills in besides the rules of the object itself.

Each plug-in is a module with a function over `Attributes`; it changes the object in place or raises a refusal. The
three lists below are the order in which they run.
"""

from __future__ import annotations

from dray.server.admission import (
    certificate_requests,
    claim_status,
    custom_definitions,
    gangs,
    jobs,
    namespaces,
    nodes,
    pods,
    priority,
    quota,
    rights,
)
from dray.server.admission.attributes import Attributes
from dray.server.admission.namespaces import require_namespace

__all__ = ["Attributes", "on_create", "on_delete", "on_update", "require_namespace"]

_CREATE = (
    custom_definitions.refuse_while_ending,
    rights.validate_roles,
    rights.check_create,
    namespaces.fill,
    nodes.taint_unready,
    pods.check_overhead,
    pods.note_gates,
    jobs.select_pods,
    certificate_requests.identify,
    certificate_requests.refuse_masters,
    pods.require_service_account,
    priority.resolve,
    priority.check_default,
    custom_definitions.establish,
    quota.charge,
    gangs.warn,
)
_UPDATE = (
    rights.validate_roles,
    rights.check_update,
    namespaces.keep_label,
    claim_status.authorize,
    certificate_requests.authorize,
    priority.check_default,
    custom_definitions.establish,
    quota.charge,
    gangs.warn,
)
_DELETE = (rights.check_delete, namespaces.protect)


def on_create(attributes: Attributes) -> None:
    for plugin in _CREATE:
        plugin(attributes)


def on_update(attributes: Attributes) -> None:
    for plugin in _UPDATE:
        plugin(attributes)


def on_delete(attributes: Attributes) -> None:
    for plugin in _DELETE:
        plugin(attributes)
