"""A PolicyRule of RBAC: what it allows, and what it covers of another.

Matching is Kubernetes' to the letter. `*` stands for everything in its own list only; `*/status` for that subresource
of every resource; `pods/*` for nothing; a resource without its subresource does not include it. A rule with
resourceNames never allows a request that names no object, so it cannot allow `create` or an unrestricted `list`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any

ALL = "*"
MAX_PARTS = 20_000
# Limit of comparisons between held and wanted rules, which take less than a second.
MAX_COMPARISONS = 1_000_000


class TooManyPartsError(ValueError):
    """Raised for rules whose lists multiply to too many permissions."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()

    @classmethod
    def read(cls, rule: Mapping[str, Any]) -> PolicyRule:
        members = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(_texts(rule.get(member)) for member in members))

    def allows(self, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
        return (
            (verb in self.verbs or ALL in self.verbs)
            and (group in self.groups or ALL in self.groups)
            and self._has_resource(resource, subresource)
            and (not self.names or (name != "" and name in self.names))
        )

    def allows_path(self, verb: str, path: str) -> bool:
        return (verb in self.verbs or ALL in self.verbs) and any(_url_matches(url, path) for url in self.urls)

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def parts(self) -> Iterator[PolicyRule]:
        """Yields the same permissions as rules with one verb on one resource each."""
        for verb in sorted(self.verbs):
            for url in sorted(self.urls):
                yield PolicyRule(frozenset((verb,)), urls=frozenset((url,)))
            for group in sorted(self.groups):
                for resource in sorted(self.resources):
                    for names in [frozenset((name,)) for name in sorted(self.names)] or [self.names]:
                        yield PolicyRule(frozenset((verb,)), frozenset((group,)), frozenset((resource,)), names)

    @property
    def part_count(self) -> int:
        things = len(self.urls) + len(self.groups) * len(self.resources) * max(len(self.names), 1)
        return len(self.verbs) * things

    def covers(self, part: PolicyRule) -> bool:
        """Returns True if this rule includes the part; wildcards in the part are taken literally."""
        if not _includes(self.verbs, part.verbs):
            return False
        if not all(_covers_url(self.urls, url) for url in part.urls):
            return False
        return not part.resources or (
            _includes(self.groups, part.groups)
            and all(self._covers_resource(resource) for resource in part.resources)
            and (not self.names or (bool(part.names) and part.names <= self.names))
        )

    def _covers_resource(self, resource: str) -> bool:
        if ALL in self.resources or resource in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def document(self) -> dict[str, list[str]]:
        """Returns the rule as an object; empty members are left out."""
        members = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {name: sorted(values) for name, values in members.items() if values}

    def __str__(self) -> str:
        """Returns the form in which Kubernetes lists missing permissions."""
        titles = {
            "NonResourceURLs": self.urls,
            "APIGroups": self.groups,
            "Resources": self.resources,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        shown = (f"{title}:[{_quoted(values)}]" for title, values in titles.items() if values)
        return "{" + ", ".join(shown) + "}"


def uncovered(held: Iterable[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Returns the parts of the wanted rules that the held rules do not include."""
    owned, wanted = tuple(held), tuple(wanted)
    _check_comparisons(owned, wanted)
    open_rules = [rule for rule in wanted if not any(own.covers(rule) for own in owned)]
    if sum(rule.part_count for rule in open_rules) > MAX_PARTS:
        raise TooManyPartsError(f"the rules amount to more than {MAX_PARTS} permissions")
    parts = dict.fromkeys(part for rule in open_rules for part in rule.parts())
    _check_comparisons(owned, parts)
    return [part for part in parts if not any(rule.covers(part) for rule in owned)]


def _check_comparisons(owned: Sized, wanted: Sized) -> None:
    if len(owned) * len(wanted) > MAX_COMPARISONS:
        detail = f"{len(wanted)} permissions against {len(owned)} rules that are held"
        raise TooManyPartsError(f"{detail} are too many to compare: grant them in several roles")


def _includes(held: frozenset[str], wanted: frozenset[str]) -> bool:
    return ALL in held or wanted <= held


def _url_matches(pattern: str, path: str) -> bool:
    if pattern in (ALL, path):
        return True
    return pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL))


def _covers_url(held: frozenset[str], wanted: str) -> bool:
    return any(_url_matches(pattern, wanted) for pattern in held)


def _texts(values: Any) -> frozenset[str]:
    # Keeps all entries: an emptied list of resourceNames would mean every name.
    return frozenset(map(str, values or ()))


def _quoted(values: Iterable[str]) -> str:
    return " ".join(f'"{value}"' for value in sorted(values))
