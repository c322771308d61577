"""The policy: roles and bindings as they stand now, and whom they grant what.

The server hands in every change of the four kinds as it is written (`put`, `remove`), before it acknowledges it, so
that what was taken away is gone at once. Bindings are looked up by subject; what a user holds in a namespace is worked
out once and remembered until the next change.

The rules of a ClusterRole with an aggregationRule are those of the roles its selectors match, whatever is written in
it; the server shows them by `aggregated`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from dray.api import label_selectors
from dray.api.objects import Object
from dray.server.authorization import MASTERS, Access, Authorizer, Decision, User
from dray.server.security.rules import PolicyRule
from dray.server.security.users import service_account_name
from dray.server.selection import pinned

GROUP = "rbac.authorization.k8s.io"
ROLE = "Role"
CLUSTER_ROLE = "ClusterRole"
ROLE_BINDING = "RoleBinding"
CLUSTER_ROLE_BINDING = "ClusterRoleBinding"
KINDS = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)

_REMEMBERED = 4096
# Reviews may name users with any number of groups; those with more are not cached.
_REMEMBERED_GROUPS = 64

Rules = tuple[PolicyRule, ...]
_ALLOWED = Decision(True)
_NO_OPINION = Decision(False)
# Verbs that a field selector restricts; for other verbs a client could name any.
_SELECTING = frozenset({"list", "watch", "deletecollection"})


class Grant(NamedTuple):
    """Rules, and the binding that grants them."""

    rules: Rules
    source: str


@dataclass(frozen=True, slots=True)
class _Binding:
    namespace: str
    role_kind: str
    role_name: str
    source: str


class Policy:
    def __init__(self) -> None:
        self._objects: dict[str, dict[tuple[str, str], Object]] = {kind: {} for kind in KINDS}
        # namespace (empty for the whole cluster) → subject → bindings
        self._bindings: dict[str, dict[tuple[str, str], list[_Binding]]] | None = None
        self._rules: dict[tuple[str, str, str], Rules] = {}
        # The own rules of ClusterRoles, each with the form in which it is shown.
        self._own: dict[tuple[str, str], dict[PolicyRule, Object]] = {}
        # The ClusterRoles that an aggregationRule selects.
        self._selected: dict[bytes, list[tuple[str, str]]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], tuple[Grant, ...]] = {}

    def put(self, kind: str, obj: Object) -> None:
        self._objects[kind][_key(obj)] = _kept(obj)
        self._forget(kind, _key(obj))

    def remove(self, kind: str, namespace: str, name: str) -> None:
        self._objects[kind].pop((namespace, name), None)
        self._forget(kind, (namespace, name))

    def replace(self, kind: str, objects: Iterable[Object]) -> None:
        """Replaces all objects of a kind."""
        self._objects[kind] = {_key(obj): _kept(obj) for obj in objects}
        self._own.clear()
        self._forget(kind)

    def grants(self, user: User, namespace: str) -> tuple[Grant, ...]:
        """Returns the grants of a user in a namespace, or cluster-wide only if it is empty."""
        if len(user.groups) > _REMEMBERED_GROUPS:
            return tuple(self._find_grants(user, namespace))
        key = (user.name, user.groups, namespace)
        found = self._grants.get(key)
        if found is None:
            if len(self._grants) >= _REMEMBERED:
                self._grants.clear()
            found = self._grants[key] = tuple(self._find_grants(user, namespace))
        return found

    def rules(self, kind: str, namespace: str, name: str) -> Rules | None:
        """Returns the rules of a role; None if it does not exist."""
        key = (kind, namespace if kind == ROLE else "", name)
        found = self._rules.get(key)
        if found is None:
            role = self._objects[kind].get(key[1:])
            if role is None:
                return None
            found = self._rules[key] = tuple(self._read_rules(role, kind))
        return found

    def aggregated(self, cluster_role: Object) -> list[Object]:
        """Returns the rules to show in a ClusterRole with an aggregationRule. Callers must not change them."""
        return list(self._collected(cluster_role).values())

    def collectors(self, labels: Mapping[str, str]) -> set[str]:
        """Returns the aggregated ClusterRoles that a role with these labels belongs to."""
        return {
            name
            for (_, name), role in self._objects[CLUSTER_ROLE].items()
            if any(matches(labels) for matches in _selectors(role))
        }

    def _find_grants(self, user: User, namespace: str) -> Iterator[Grant]:
        if self._bindings is None:
            self._bindings = self._index()
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            bound = self._bindings.get(scope, {})
            for subject in subjects:
                for binding in bound.get(subject, ()):
                    rules = self.rules(binding.role_kind, binding.namespace, binding.role_name)
                    if rules:
                        yield Grant(rules, f'{binding.source} to {subject[0]} "{subject[1]}"')

    def _index(self) -> dict[str, dict[tuple[str, str], list[_Binding]]]:
        index: dict[str, dict[tuple[str, str], list[_Binding]]] = {}
        for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING):
            for (namespace, name), obj in self._objects[kind].items():
                reference = obj.get("roleRef") or {}
                role_kind = str(reference.get("kind"))
                if role_kind not in ((CLUSTER_ROLE,) if kind == CLUSTER_ROLE_BINDING else (CLUSTER_ROLE, ROLE)):
                    continue
                title = f"{namespace}/{name}" if namespace else name
                source = f'{kind} "{title}" of {role_kind} "{reference.get("name")}"'
                binding = _Binding(namespace, role_kind, str(reference.get("name")), source)
                for subject in _subjects(obj, namespace):
                    index.setdefault(namespace, {}).setdefault(subject, []).append(binding)
        return index

    def _read_rules(self, role: Object, kind: str) -> Iterable[PolicyRule]:
        if kind == CLUSTER_ROLE and role.get("aggregationRule"):
            return self._collected(role)
        return dict.fromkeys(PolicyRule.read(rule) for rule in role.get("rules") or ())

    def _collected(self, role: Object) -> dict[PolicyRule, Object]:
        """Returns the rules of all roles that an aggregated one selects, each with the form in which it is shown."""
        found: dict[PolicyRule, Object] = {}
        # Each role once, even if several others select it.
        seen = {_key(role)}
        stack = [role]
        while stack:
            role = stack.pop()
            if not role.get("aggregationRule"):
                found.update(self._own_rules(role))
                continue
            parts = [key for key in self._parts(role) if key not in seen]
            seen.update(parts)
            stack.extend(self._objects[CLUSTER_ROLE][key] for key in reversed(parts))
        return found

    def _own_rules(self, role: Object) -> dict[PolicyRule, Object]:
        """Returns a role's own rules, cached because several roles may collect them: parsing is slow."""
        key = _key(role)
        found = self._own.get(key)
        if found is None:
            written = {PolicyRule.read(rule): rule for rule in role.get("rules") or ()}
            found = self._own[key] = {rule: _shown(rule, text) for rule, text in written.items()}
        return found

    def _parts(self, role: Object) -> list[tuple[str, str]]:
        """Returns the ClusterRoles that an aggregated one selects."""
        aggregation = role["aggregationRule"]
        key = msgspec.json.encode(aggregation)
        found = self._selected.get(key)
        if found is None:
            matchers = _selectors(role)
            found = self._selected[key] = [
                key
                for key, other in sorted(self._objects[CLUSTER_ROLE].items())
                if any(matches(other["metadata"].get("labels") or {}) for matches in matchers)
            ]
        return found

    def _forget(self, kind: str, key: tuple[str, str] | None = None) -> None:
        if kind == CLUSTER_ROLE and key is not None:
            self._own.pop(key, None)
        self._bindings = None
        self._rules.clear()
        self._selected.clear()
        self._grants.clear()


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return (metadata.get("namespace") or "", metadata["name"])


def _kept(obj: Object) -> Object:
    """Drops the rules of an aggregated role, which are copies of other roles' rules."""
    return {name: value for name, value in obj.items() if name != "rules"} if obj.get("aggregationRule") else obj


def _shown(rule: PolicyRule, written: Object) -> Object:
    """Returns `written` if it equals the document of the rule, so that equal objects are shared."""
    document = rule.document()
    return written if written == document else document


def _selectors(cluster_role: Object) -> list[label_selectors.Matcher]:
    aggregation = cluster_role.get("aggregationRule") or {}
    return [label_selectors.from_object(item) for item in aggregation.get("clusterRoleSelectors") or ()]


def _subjects(binding: Object, namespace: str) -> Iterator[tuple[str, str]]:
    """Yields the users and groups of a binding; a service account is the user of its tokens."""
    for subject in binding.get("subjects") or ():
        kind, name, group = subject.get("kind"), subject.get("name"), subject.get("apiGroup") or ""
        if kind in ("User", "Group") and group in ("", GROUP):
            yield (kind, name)
        elif kind == "ServiceAccount" and not group:
            home = subject.get("namespace") or namespace
            if home:
                yield ("User", service_account_name(home, name))


class RBAC:
    """Role-based access control: users have what the policy grants; `system:masters` has everything.

    There are no deny rules: an access is refused if no rule allows it.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def authorize(self, user: User, access: Access) -> Decision:
        verb, path, name = access.verb, access.path, access.name
        if not name and access.field_selector and verb in _SELECTING:
            name = pinned(access.field_selector, "metadata.name")
        # Only cluster-wide grants apply to paths that name no resource.
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
    """Asks several authorizers in order; the first that allows decides, and a refusal has all their reasons."""

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
