"""The names a server has for what it serves: from the answers of discovery, for the words of a command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import click

from dray.api.objects import Object, metadata_of


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind in one of the versions it is served in."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """As kubectl calls an object of the kind: `pod`, `resourceclaim.resource.k8s.io`."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Those that win over the others first."""
        return (self.plural,), (self.singular, self.kind.lower()), self.short_names


class Catalog:
    """What a server serves, groups and versions in its order of preference."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self.kinds = list(kinds)

    def find(self, api_version: str, kind: str) -> ServedKind | None:
        return next((each for each in self.kinds if (each.api_version, each.kind) == (api_version, kind)), None)

    def named(self, text: str) -> list[ServedKind]:
        """What TYPE, TYPE.GROUP or TYPE.VERSION.GROUP means: one kind, all of a category, or nothing.

        As for kubectl, plurals win over other names and whole groups over the beginnings of groups; the server's
        order decides among the rest.
        """
        name, _, rest = text.lower().partition(".")
        if not rest and (members := self._category(name)):
            return members
        for kinds in self._narrowed(rest):
            for rank in range(3):
                for each in kinds:
                    if name in each.names[rank]:
                        return [each]
        return []

    def similar(self, text: str) -> list[str]:
        """Plurals that may have been meant."""
        plurals = dict.fromkeys(each.plural for each in self.kinds)
        return difflib.get_close_matches(text.lower().partition(".")[0], plurals, n=2)

    def _category(self, name: str) -> list[ServedKind]:
        members: dict[tuple[str, str], ServedKind] = {}
        for each in self.kinds:
            if name in each.categories:
                members.setdefault((each.group, each.plural), each)
        return list(members.values())

    def _narrowed(self, rest: str) -> Iterator[list[ServedKind]]:
        if not rest:
            yield self.kinds
            return
        version, _, group = rest.partition(".")
        yield [each for each in self.kinds if (each.version, each.group) == (version, group)]
        yield [each for each in self.kinds if each.group == rest]
        yield [each for each in self.kinds if each.group.startswith(rest)]


def served(document: Object) -> Iterator[ServedKind]:
    """What an APIGroupDiscoveryList lists; that which cannot be listed itself is a question, not a thing."""
    for group in document.get("items") or ():
        for version in group.get("versions") or ():
            for each in version.get("resources") or ():
                if "list" in (each.get("verbs") or ()) and each.get("responseKind"):
                    yield _kind(metadata_of(group).get("name") or "", version["version"], each)


def _kind(group: str, version: str, each: Object) -> ServedKind:
    kind = each["responseKind"]["kind"]
    return ServedKind(
        group=group,
        version=version,
        plural=each["resource"],
        singular=each.get("singularResource") or kind.lower(),
        kind=kind,
        namespaced=each.get("scope") == "Namespaced",
        short_names=tuple(each.get("shortNames") or ()),
        categories=tuple(each.get("categories") or ()),
    )


def wanted(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Types and names, of TYPE NAME... or TYPE/NAME...; raises UsageError for anything else."""
    slashed = ["/" in argument for argument in arguments]
    if not any(slashed):
        return [(arguments[0], [_name(each) for each in arguments[1:]])] if arguments else []
    if not all(slashed):
        raise click.UsageError("give either TYPE NAME... or TYPE/NAME..., not a mixture of both")
    found: dict[str, list[str]] = {}
    for argument in arguments:
        kind, _, name = argument.partition("/")
        found.setdefault(kind, []).append(_name(name))
    return list(found.items())


def _name(text: str) -> str:
    if not is_name(text):
        raise click.UsageError(f"{text!r} cannot be the name of an object")
    return text


def is_name(text: str) -> bool:
    """Whether it can stand in a path and mean itself."""
    return bool(text) and text not in (".", "..") and not set("/%") & set(text)
