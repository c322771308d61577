"""The words for "you may not", as Kubernetes says them and kubectl shows them."""

from __future__ import annotations

from dray.server import status
from dray.server.authorization import User


def forbidden(
    user: User,
    verb: str,
    group: str,
    resource: str,
    subresource: str = "",
    namespace: str = "",
    name: str = "",
    reason: str = "",
    *,
    path: str = "",
) -> status.ApiError:
    """A 403 for attributes that an authorizer has turned down."""
    if path:
        text = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
        return status.ApiError(403, "Forbidden", f"{text}: {reason}" if reason else text)
    why = describe(user, verb, group, resource, subresource, namespace)
    return status.forbidden(group, resource, name, f"{why}: {reason}" if reason else why)


def describe(user: User, verb: str, group: str, resource: str, subresource: str = "", namespace: str = "") -> str:
    what = f"{resource}/{subresource}" if subresource else resource
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {verb} resource "{what}" in API group "{group}" {where}'
