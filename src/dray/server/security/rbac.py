"""Role-based access control, and the chain of authorizers the server asks.

Members of `system:masters` may do everything; a node is asked about what is its own; everybody else, and a node for
the rest, holds what the policy grants. Nothing ever denies: what nobody allows is refused.
"""

from __future__ import annotations

from dray.server.authorization import MASTERS, Access, Authorizer, Decision, User
from dray.server.field_selectors import pinned
from dray.server.security.policy import Policy

_ALLOWED = Decision(True)
_NO_OPINION = Decision(False)
# Verbs that a field selector narrows down; on any other, a client could name what it likes.
_SELECTING = frozenset({"list", "watch", "deletecollection"})


class RBAC:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def authorize(self, user: User, access: Access) -> Decision:
        verb, path, name = access.verb, access.path, access.name
        if not name and access.field_selector and verb in _SELECTING:
            name = pinned(access.field_selector, "metadata.name")
        # Only grants for the whole cluster reach what is no resource.
        for grant in self._policy.grants(user, "" if path else access.namespace):
            for rule in grant.rules:
                if path:
                    allowed = rule.allows_path(verb, path)
                else:
                    allowed = rule.allows(verb, access.group, access.resource, access.subresource, name)
                if allowed:
                    return Decision(True, f"RBAC: allowed by {grant.source}")
        return _NO_OPINION


class Authorizers:
    """Asks one after the other; the first that allows decides, and of the refusals all reasons are told."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    def authorize(self, user: User, access: Access) -> Decision:
        if MASTERS in user.groups:
            return _ALLOWED
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.authorize(user, access)
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(False, "; ".join(reasons)) if reasons else _NO_OPINION
