"""Registry of policies and webhooks: kept compiled, and found by what a write is about.

Whatever is stored of these kinds is compiled when it is first needed after it changed. Which of them concern writes to
a resource is found out once per resource and operation, and kept until one of them, or a custom kind, changes: a write
that concerns none of them costs one look-up, however many there are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from dray.api.catalogue import ADMISSION_GROUP
from dray.api.objects import Object
from dray.cel.errors import CompileError
from dray.server import documents
from dray.server.admission.dynamic import webhooks
from dray.server.admission.dynamic.matching import Matcher, Target
from dray.server.admission.dynamic.metrics import AdmissionMetrics
from dray.server.admission.dynamic.mutations import MutatingPolicy
from dray.server.admission.dynamic.policies import ValidatingPolicy
from dray.server.admission.dynamic.webhooks import Webhook
from dray.server.context import Context
from dray.server.resources import Resource, key_prefix

_log = logging.getLogger("dray.server")
_MOST_TARGETS = 4096
_POLICIES, _MUTATING = "validatingadmissionpolicies", "mutatingadmissionpolicies"
_WEBHOOKS, _MUTATING_WEBHOOKS = "validatingwebhookconfigurations", "mutatingwebhookconfigurations"
_BINDINGS = {_POLICIES: "validatingadmissionpolicybindings", _MUTATING: "mutatingadmissionpolicybindings"}
_OWNERS = {bindings: policies for policies, bindings in _BINDINGS.items()}
# Makes the compiled form of an object and its bindings, if its kind has any.
_MAKERS: dict[str, Callable[[Object, list[Object]], list[Any]]] = {
    _POLICIES: lambda policy, bindings: [ValidatingPolicy(policy, bindings)] if bindings else [],
    _MUTATING: lambda policy, bindings: [MutatingPolicy(policy, bindings)] if bindings else [],
    _WEBHOOKS: lambda configuration, _: webhooks.of_configuration(configuration, mutates=False),
    _MUTATING_WEBHOOKS: lambda configuration, _: webhooks.of_configuration(configuration, mutates=True),
}
_PLURALS = (*_MAKERS, *_OWNERS)


class Concerned(NamedTuple):
    """The policies and webhooks that match a target, each with the version in which it wants to see the object."""

    policies: tuple[tuple[ValidatingPolicy, str], ...] = ()
    webhooks: tuple[tuple[Webhook, str], ...] = ()
    mutators: tuple[tuple[MutatingPolicy | Webhook, str], ...] = ()


NOBODY = Concerned()


class DynamicAdmission:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._stored: dict[str, dict[str, Object]] = {plural: {} for plural in _PLURALS}
        self._compiled: dict[str, dict[str, list[Any]]] = {plural: {} for plural in _MAKERS}
        self.metrics = AdmissionMetrics()
        self._changed: set[tuple[str, str]] = set()
        self._concerned: dict[tuple[str, ...], Concerned] = {}
        self._custom_kinds = 0
        for plural in _PLURALS:
            prefix = key_prefix(ADMISSION_GROUP, plural)
            for record in context.store.list(prefix).records:
                self._note(plural, record.key.removeprefix(prefix), documents.decode(record.value))
            context.observe(prefix, self._observe)

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        self._note(resource.plural, key.removeprefix(resource.key_prefix), obj)

    def _note(self, plural: str, name: str, obj: Object | None) -> None:
        known = self._stored[plural].pop(name, None)
        if obj is not None:
            self._stored[plural][name] = obj
        if plural in _MAKERS:
            self._changed.add((plural, name))
        else:
            for binding in (known, obj):
                if binding is not None:
                    self._changed.add((_OWNERS[plural], binding["spec"].get("policyName") or ""))
        self._concerned.clear()

    def concerned(self, resource: Resource, subresource: str, operation: str) -> Concerned:
        key = (resource.group, resource.version, resource.plural, subresource, operation)
        if self._custom_kinds != self._context.registry.changes:
            self._custom_kinds = self._context.registry.changes
            self._concerned.clear()
        found = self._concerned.get(key)
        if found is None:
            if len(self._concerned) >= _MOST_TARGETS:
                self._concerned.clear()
            found = self._concerned[key] = self._find(Target(*key, resource.namespaced))
        return found

    def _find(self, target: Target) -> Concerned:
        if target.group == ADMISSION_GROUP:
            # A policy that refuses its own deletion could never be deleted.
            return NOBODY
        self._compile()
        registry = self._context.registry
        versions = [
            version
            for version in registry.versions(target.group)
            if registry.find(target.group, version, target.plural)
        ]
        policies, asked, mutating, mutating_webhooks = (
            self._matching(plural, target, versions) for plural in (_POLICIES, _WEBHOOKS, _MUTATING, _MUTATING_WEBHOOKS)
        )
        found = Concerned(policies, asked, mutating + mutating_webhooks)
        return found if any(found) else NOBODY

    def _matching(self, plural: str, target: Target, versions: list[str]) -> tuple[tuple[Any, str], ...]:
        found = []
        for _, compiled in sorted(self._compiled[plural].items()):
            for hook in compiled:
                matcher: Matcher = hook.matcher
                version = matcher.version(target, versions) if matcher.rules else None
                if version is not None:
                    found.append((hook, version))
        return tuple(found)

    def _compile(self) -> None:
        changed, self._changed = self._changed, set()
        for plural, name in changed:
            self._compiled[plural].pop(name, None)
            policy = self._stored[plural].get(name)
            if policy is None:
                continue
            bindings = self._stored[_BINDINGS[plural]].values() if plural in _BINDINGS else ()
            bound = [binding for binding in bindings if binding["spec"].get("policyName") == name]
            bound.sort(key=lambda each: str(each["metadata"]["name"]))
            try:
                self._compiled[plural][name] = _MAKERS[plural](policy, bound)
            except CompileError as error:
                _log.warning("%s %s is not applied: %s", plural, name, error)
