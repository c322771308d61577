"""Rights that depend on what is written: those of nodes, and of whoever hands out rights."""

from __future__ import annotations

from dray.api.catalogue import RBAC_GROUP
from dray.server import status
from dray.server.admission.attributes import Attributes
from dray.server.security import rbac_objects
from dray.server.security.node_restriction import CREATE, DELETE, UPDATE, Write
from dray.server.security.users import node_of


def check_create(attributes: Attributes) -> None:
    _check(attributes, CREATE)


def check_update(attributes: Attributes) -> None:
    _check(attributes, UPDATE)


def check_delete(attributes: Attributes) -> None:
    _check(attributes, DELETE)


def _check(attributes: Attributes, operation: str) -> None:
    resource = attributes.resource
    if resource.group != RBAC_GROUP and node_of(attributes.user) is None:
        return
    write = Write(
        operation,
        resource.group,
        resource.plural,
        attributes.subresource,
        attributes.namespace,
        attributes.name,
        attributes.old,
        None if operation == DELETE else attributes.obj,
    )
    attributes.context.security.check_write(attributes.user, write)


def validate_roles(attributes: Attributes) -> None:
    """Roles and bindings have rules of their own."""
    if attributes.resource.group != RBAC_GROUP:
        return
    rbac_objects.fill_defaults(attributes.obj)
    problems = rbac_objects.validate(attributes.resource.kind, attributes.obj, attributes.old)
    if problems:
        raise status.invalid(attributes.resource.kind, RBAC_GROUP, attributes.name, problems)
