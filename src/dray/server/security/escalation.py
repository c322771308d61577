"""Escalation check: users can grant only permissions that they have.

Called when a role or binding is written, after the ordinary authorization. A role may contain only what its author
holds where the role counts, a binding may hand out only such a role; the verbs `escalate` on roles and `bind` on the
role that is bound lift that. An aggregated role can come to contain anything, so its author must hold everything, and a
label that makes a role part of an aggregated one grants what is in the role.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.objects import Object
from dray.server import status
from dray.server.authorization import MASTERS, Access, Authorizer, User
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE, ROLE_BINDING, Policy
from dray.server.security.rules import ALL, PolicyRule, TooManyPartsError, uncovered

_PLURALS = {
    ROLE: "roles",
    CLUSTER_ROLE: "clusterroles",
    ROLE_BINDING: "rolebindings",
    CLUSTER_ROLE_BINDING: "clusterrolebindings",
}
_SHOWN = 50
_EVERYTHING = (
    PolicyRule(frozenset({ALL}), frozenset({ALL}), frozenset({ALL})),
    PolicyRule(frozenset({ALL}), urls=frozenset({ALL})),
)


class EscalationCheck:
    def __init__(self, policy: Policy, authorizer: Authorizer) -> None:
        self._policy = policy
        self._authorizer = authorizer

    def check(self, user: User, kind: str, new: Object, old: Object | None, *, namespace: str = "") -> None:
        """Raises a 403 if the user grants more than they hold; `namespace` is that of the request."""
        if MASTERS in user.groups:
            return
        if kind in (ROLE, CLUSTER_ROLE):
            self._check_role(user, kind, new, old, namespace if kind == ROLE else "")
        else:
            self._check_binding(user, kind, new, old, namespace if kind == ROLE_BINDING else "")

    def _check_role(self, user: User, kind: str, new: Object, old: Object | None, namespace: str) -> None:
        unchanged = old is not None and _same(new, old, "rules", "aggregationRule")
        if unchanged and not (kind == CLUSTER_ROLE and self._joins_another(new, old or {})):
            return
        name = new["metadata"].get("name") or ""
        if self._allowed(user, "escalate", kind, namespace, name):
            return
        wanted = [PolicyRule.read(rule) for rule in new.get("rules") or ()]
        if kind == CLUSTER_ROLE and new.get("aggregationRule"):
            wanted.extend(_EVERYTHING)
        self._require(user, wanted, kind, namespace, name)

    def _joins_another(self, new: Object, old: Object) -> bool:
        """Returns True if new labels make a role part of an aggregated one, whose holders gain its permissions."""
        before, after = (role.get("metadata", {}).get("labels") or {} for role in (old, new))
        return before != after and not self._policy.collectors(after) <= self._policy.collectors(before)

    def _check_binding(self, user: User, kind: str, new: Object, old: Object | None, namespace: str) -> None:
        if old is not None and _same(new, old, "roleRef", "subjects"):
            return
        reference = new.get("roleRef") or {}
        role_kind, role_name = str(reference.get("kind")), str(reference.get("name"))
        if role_kind not in (ROLE, CLUSTER_ROLE):
            return
        if self._allowed(user, "bind", role_kind, namespace, role_name):
            return
        wanted = self._policy.rules(role_kind, namespace, role_name)
        if wanted is None:
            raise status.not_found(GROUP, _PLURALS[role_kind], role_name)
        self._require(user, wanted, kind, namespace, new["metadata"].get("name") or "")

    def _allowed(self, user: User, verb: str, kind: str, namespace: str, name: str) -> bool:
        access = Access(verb, GROUP, _PLURALS[kind], "", namespace, name)
        return self._authorizer.authorize(user, access).allowed

    def _require(self, user: User, wanted: Iterable[PolicyRule], kind: str, namespace: str, name: str) -> None:
        held = [rule for grant in self._policy.grants(user, namespace) for rule in grant.rules]
        try:
            lacking = uncovered(held, wanted)
        except TooManyPartsError as error:
            raise status.forbidden(GROUP, _PLURALS[kind], name, str(error)) from error
        if lacking:
            groups = " ".join(f'"{group}"' for group in user.groups)
            why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
            raise status.forbidden(GROUP, _PLURALS[kind], name, "\n".join([why, *map(str, lacking[:_SHOWN])]))


def _same(new: Object, old: Object, *members: str) -> bool:
    return all((new.get(member) or None) == (old.get(member) or None) for member in members)
