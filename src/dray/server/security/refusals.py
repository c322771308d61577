"""Refusals of authorization in the words of Kubernetes, as kubectl shows them."""

from __future__ import annotations

from dray.server import status
from dray.server.authorization import Access, User


def forbidden(user: User, access: Access, reason: str = "") -> status.ApiError:
    """A 403 for what an authorizer has turned down."""
    if access.path:
        text = f'forbidden: User "{user.name}" cannot {access.verb} path "{access.path}"'
        return status.ApiError(403, "Forbidden", f"{text}: {reason}" if reason else text)
    why = describe(user, access)
    return status.forbidden(access.group, access.resource, access.name, f"{why}: {reason}" if reason else why)


def describe(user: User, access: Access) -> str:
    what = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {access.verb} resource "{what}" in API group "{access.group}" {where}'
