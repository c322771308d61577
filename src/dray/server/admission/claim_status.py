"""Admission of a claim's status: who may write which part of it."""

from __future__ import annotations

from dray.api.catalogue import RESOURCE_GROUP
from dray.server import status
from dray.server.admission.attributes import Attributes
from dray.server.security.claim_status import authorize_status


def authorize(attributes: Attributes) -> None:
    if attributes.kind != (RESOURCE_GROUP, "ResourceClaim") or attributes.subresource != "status":
        return
    context = attributes.context
    if not context.gates["DRAResourceClaimGranularStatusAuthorization"] or attributes.old is None:
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
