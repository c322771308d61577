"""Users as Kubernetes names them: nodes, service accounts, and the form in which a review shows one."""

from __future__ import annotations

from typing import Any

from dray.api.names import is_label, is_subdomain
from dray.server.authorization import AUTHENTICATED, User

UNAUTHENTICATED = "system:unauthenticated"
NODES = "system:nodes"
BOOTSTRAPPERS = "system:bootstrappers"
SERVICE_ACCOUNTS = "system:serviceaccounts"
NODE_NAME = "authentication.kubernetes.io/node-name"
NODE_UID = "authentication.kubernetes.io/node-uid"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

SYSTEM_NAMESPACE = "kube-system"
DEVICE_DRIVER = "device-driver"
"""The service account of drivers that run in the agent of a node."""

_NODE_PREFIX = "system:node:"
_SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


def node_of(user: User) -> str | None:
    """Returns the name of the user's node; None for users outside the group of nodes.

    Empty for a member of the group whose name is not a valid node's.
    """
    if NODES not in user.groups:
        return None
    name = user.name.removeprefix(_NODE_PREFIX)
    return name if user.name.startswith(_NODE_PREFIX) and is_subdomain(name) else ""


def node_user(name: str) -> User:
    return User(_NODE_PREFIX + name, (NODES, AUTHENTICATED))


def device_driver_user(node: str) -> User:
    """Returns the user of a driver in the agent of a node, equal to that of a driver's pod on the node."""
    account = (SYSTEM_NAMESPACE, DEVICE_DRIVER)
    groups = (*service_account_groups(SYSTEM_NAMESPACE), AUTHENTICATED)
    return User(service_account_name(*account), groups, extra={NODE_NAME: (node,)})


def service_account_name(namespace: str, name: str) -> str:
    return f"{_SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, str]:
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def service_account_of(user_name: str) -> tuple[str, str] | None:
    """Returns namespace and name of the service account of a user name; None for other users."""
    if not user_name.startswith(_SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = user_name.removeprefix(_SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, name) if colon and is_label(namespace) and is_subdomain(name) else None


def bound_node(user: User) -> str | None:
    """Returns the node that a service account's token is bound to; None if it is not exactly one valid name."""
    names = user.extra.get(NODE_NAME, ())
    if service_account_of(user.name) is None or len(names) != 1 or not is_subdomain(names[0]):
        return None
    return names[0]


def user_info(user: User) -> dict[str, Any]:
    """Returns a user as reviews and the audit log show it."""
    return {
        "username": user.name,
        **({"uid": user.uid} if user.uid else {}),
        "groups": list(user.groups),
        **({"extra": {key: list(values) for key, values in user.extra.items()}} if user.extra else {}),
    }
