"""Authorization: users, accesses and decisions, the interface between the API server and its security.

The server asks an `Authorizer` before it does anything, and again for the parts of a claim's status that need a
grant of their own. Paths that name no resource (`/version`, `/metrics`) are asked for with `path`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from dray.server import status

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of an authorizer; `reason` is shown to a user that is refused."""

    allowed: bool
    reason: str = ""


class Access(msgspec.Struct, frozen=True):
    """A requested access: a verb on a resource, or on a `path` that names no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""


class Authorizer(Protocol):
    """Decides without waiting; keeps everything that it needs in memory."""

    def authorize(self, user: User, access: Access) -> Decision: ...


ADMIN = User("system:admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def forbidden(user: User, access: Access, reason: str = "") -> status.ApiError:
    """Returns a 403 for an access that an authorizer has denied."""
    if access.path:
        text = f'forbidden: User "{user.name}" cannot {access.verb} path "{access.path}"'
        return status.ApiError(403, "Forbidden", f"{text}: {reason}" if reason else text)
    why = describe(user, access)
    return status.forbidden(access.group, access.resource, access.name, f"{why}: {reason}" if reason else why)


def describe(user: User, access: Access) -> str:
    what = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {access.verb} resource "{what}" in API group "{access.group}" {where}'
