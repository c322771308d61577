"""Registry of resources: every served resource by its path; custom kinds come and go."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dray.api import catalogue
from dray.api.gates import FeatureGates
from dray.server.resources import BuiltIn, EventResource, Resource

# Kinds that are served only if their feature gate is on.
_GATED = {"Workload": "GenericWorkload", "PodGroup": "GenericWorkload", "CompositePodGroup": "CompositePodGroup"}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_order(version: str) -> tuple[int, int, int, int, str]:
    """Returns the sort key of a version: stable, beta, alpha, newer first; others last, by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (0, stage, -int(match[1]), -int(match[3] or 0), "")


class ResourceRegistry:
    """The served resources; `changes` counts changes, for caches that depend on them."""

    def __init__(self, gates: FeatureGates) -> None:
        self.changes = 0
        self._resources: dict[tuple[str, str, str], Resource] = {}
        for target in catalogue.every_version():
            gate = _GATED.get(target.kind) if target.group == catalogue.SCHEDULING_GROUP else None
            if gate is None or gates[gate]:
                made = EventResource(target) if target.group == "events.k8s.io" else BuiltIn(target)
                self._resources[target.group, target.version, target.plural] = made
        self._built_in = frozenset((group, plural) for group, _, plural in self._resources)
        self.built_in_groups = frozenset(group for group, _ in self._built_in)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        group, version = catalogue.split_api_version(api_version)
        return next((r for r in self.resources(group, version) if r.kind == kind), None)

    def is_built_in(self, group: str, plural: str) -> bool:
        return (group, plural) in self._built_in

    def groups(self) -> list[str]:
        """Returns the groups: the core group first, the others in the order of registration."""
        return list(dict.fromkeys(group for group, _, _ in [("", "", ""), *self._resources]))

    def versions(self, group: str) -> list[str]:
        found = {version for g, version, _ in self._resources if g == group}
        return sorted(found, key=version_order)

    def resources(self, group: str, version: str) -> list[Resource]:
        found = [r for (g, v, _), r in self._resources.items() if (g, v) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)

    def stored(self) -> Iterator[Resource]:
        """Yields one resource for each kind that is stored."""
        seen = set()
        for resource in self._resources.values():
            if resource.key_prefix not in seen:
                seen.add(resource.key_prefix)
                yield resource

    def replace_custom(self, group: str, plural: str, resources: list[Resource]) -> None:
        """Serves a custom kind in exactly these versions."""
        if self.is_built_in(group, plural):
            return
        for key in [key for key in self._resources if key[0] == group and key[2] == plural]:
            del self._resources[key]
        for resource in resources:
            self._resources[resource.group, resource.version, resource.plural] = resource
        self.changes += 1
