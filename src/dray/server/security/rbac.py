"""Role-based access control, and the chain of authorizers the server asks.

Members of `system:masters` may do everything; a node is asked about what is its own; everybody else, and a node for
the rest, holds what the policy grants. Nothing ever denies: what nobody allows is refused.
"""

from __future__ import annotations

from dray.server.authorization import MASTERS, Authorizer, Decision, User
from dray.server.security.field_pins import pinned
from dray.server.security.policy import Policy

_ALLOWED = Decision(True)
_NO_OPINION = Decision(False)
# Verbs that a field selector narrows down; on any other, a client could name what it likes.
_SELECTING = frozenset({"list", "watch", "deletecollection"})


class RBAC:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def authorize(
        self,
        user: User,
        verb: str,
        group: str,
        resource: str,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        *,
        path: str = "",
        field_selector: str = "",
    ) -> Decision:
        if not name and field_selector and verb in _SELECTING:
            name = pinned(field_selector, "metadata.name")
        # Only grants for the whole cluster reach what is no resource.
        for grant in self._policy.grants(user, "" if path else namespace):
            for rule in grant.rules:
                allowed = (
                    rule.allows_path(verb, path) if path else rule.allows(verb, group, resource, subresource, name)
                )
                if allowed:
                    return Decision(True, f"RBAC: allowed by {grant.source}")
        return _NO_OPINION


class Authorizers:
    """Asks one after the other; the first that allows decides, and of the refusals all reasons are told."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    def authorize(
        self,
        user: User,
        verb: str,
        group: str,
        resource: str,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        *,
        path: str = "",
        field_selector: str = "",
    ) -> Decision:
        if MASTERS in user.groups:
            return _ALLOWED
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.authorize(
                user, verb, group, resource, subresource, namespace, name, path=path, field_selector=field_selector
            )
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(False, "; ".join(reasons)) if reasons else _NO_OPINION
