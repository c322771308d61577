"""Matching of writes against the rules of policies and webhooks.

A `Target` is what is known of a write from its path: rules are matched against it once, and the outcome is kept. What
depends on the object (its name, its labels, those of its namespace) is asked of every write that gets so far.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.api import label_selectors
from dray.api.objects import Object, labels_of, mapping
from dray.server.admission.dynamic.request import AdmissionRequest

ALL = "*"


class Target(NamedTuple):
    group: str
    version: str
    plural: str
    subresource: str
    operation: str
    namespaced: bool


class Rule:
    """An entry of `rules`, `resourceRules` or `excludeResourceRules`."""

    def __init__(self, rule: Object) -> None:
        self._operations = frozenset(rule.get("operations") or ())
        self._groups = frozenset(rule.get("apiGroups") or ())
        self._versions = frozenset(rule.get("apiVersions") or ())
        self._resources = frozenset(rule.get("resources") or ())
        self._scope = rule.get("scope") or ALL
        self.names = frozenset(rule.get("resourceNames") or ())

    def matches(self, target: Target) -> bool:
        return (
            _has(self._operations, target.operation)
            and _has(self._groups, target.group)
            and _has(self._versions, target.version)
            and self._has_scope(target)
            and self._has_resource(target)
        )

    def _has_scope(self, target: Target) -> bool:
        namespaced = target.namespaced and target.plural != "namespaces"
        return self._scope == ALL or (self._scope == "Namespaced") == namespaced

    def _has_resource(self, target: Target) -> bool:
        if not target.subresource:
            return not self._resources.isdisjoint((target.plural, ALL, f"{target.plural}/*", "*/*"))
        wanted = (f"{plural}/{part}" for plural in (target.plural, ALL) for part in (target.subresource, ALL))
        return not self._resources.isdisjoint(wanted)


def _has(listed: frozenset[str], value: str) -> bool:
    return value in listed or ALL in listed


class Matcher:
    """Matches `matchConstraints` of a policy, `matchResources` of a binding, or a webhook."""

    def __init__(self, given: Object, member: str = "resourceRules") -> None:
        rules = given.get(member)
        # A binding without rules matches everything that its policy matches.
        self.rules = [Rule(rule) for rule in rules] if rules else None
        self._excluded = [Rule(rule) for rule in given.get("excludeResourceRules") or ()]
        self._exact = given.get("matchPolicy") == "Exact"
        self._namespaces = _selector(given.get("namespaceSelector"))
        self._objects = _selector(given.get("objectSelector"))

    def version(self, target: Target, versions: Iterable[str]) -> str | None:
        """Returns the version in which the rules want to see an object; None if no rule matches."""
        if self.rules is None or any(rule.matches(target) for rule in self.rules):
            return target.version
        if self._exact:
            return None
        for version in versions:
            if any(rule.matches(target._replace(version=version)) for rule in self.rules):
                return version
        return None

    def selects(self, request: AdmissionRequest, version: str) -> bool:
        """Returns True if the selectors match the object; call it only if a rule matches the target."""
        seen = request.target._replace(version=version)
        if self.rules is not None and not any(_names(rule, request) and rule.matches(seen) for rule in self.rules):
            return False
        if any(_names(rule, request) and rule.matches(seen) for rule in self._excluded):
            return False
        return self._selects_namespace(request) and self._selects_object(request)

    def _selects_namespace(self, request: AdmissionRequest) -> bool:
        if self._namespaces is None:
            return True
        namespace = request.own_namespace
        return namespace is None or self._namespaces(labels_of(namespace))

    def _selects_object(self, request: AdmissionRequest) -> bool:
        if self._objects is None:
            return True
        # Options of a connection cannot have labels, so no selector matches them.
        there = (shown for shown in (request.object, request.old) if shown is not None and "metadata" in shown)
        return any(self._objects(labels_of(obj)) for obj in there)


def _names(rule: Rule, request: AdmissionRequest) -> bool:
    return not rule.names or request.name in rule.names


def _selector(selector: Object | None) -> label_selectors.Matcher | None:
    given = mapping(selector)
    return label_selectors.from_object(given) if given else None
