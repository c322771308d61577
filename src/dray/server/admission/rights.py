"""Rights that depend on what is written: node restriction, escalation by roles, and parts of a claim's status."""

from __future__ import annotations

from dray.api.catalogue import RBAC_GROUP, RESOURCE_GROUP
from dray.server import status
from dray.server.admission.attributes import Attributes
from dray.server.security import rbac_objects
from dray.server.security.claim_status import authorize_status
from dray.server.security.node_restriction import DELETE, Write
from dray.server.security.users import node_of


def check(attributes: Attributes) -> None:
    resource, operation = attributes.resource, attributes.operation
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
    """Fills in defaults of roles and bindings, and refuses invalid ones."""
    rbac_objects.fill_defaults(attributes.obj)
    problems = rbac_objects.validate(attributes.resource.kind, attributes.obj, attributes.old)
    if problems:
        raise status.invalid(attributes.resource.kind, RBAC_GROUP, attributes.name, problems)


def authorize_claim_status(attributes: Attributes) -> None:
    context = attributes.context
    if attributes.subresource != "status" or attributes.old is None:
        return
    if not context.gates["DRAResourceClaimGranularStatusAuthorization"]:
        return
    problems = authorize_status(
        attributes.old,
        attributes.obj,
        user=attributes.user,
        verb=attributes.verb,
        namespace=attributes.namespace,
        authorizer=context.authorizer,
    )
    if problems:
        raise status.invalid(attributes.resource.kind, RESOURCE_GROUP, attributes.name, problems)
