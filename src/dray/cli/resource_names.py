"""Resource types and names on the command line: what TYPE, TYPE/NAME and short names mean to a server."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dray.client.discovery import ServedResource


class Catalog:
    """The resources of a server, with groups and versions in its order of preference."""

    def __init__(self, resources: Iterable[ServedResource]) -> None:
        """Keeps the resources that can be listed; others, such as reviews, are requests and not objects."""
        self.kinds = [resource for resource in resources if "list" in resource.verbs]

    def find(self, api_version: str, kind: str) -> ServedResource | None:
        return next((served for served in self.kinds if (served.api_version, served.kind) == (api_version, kind)), None)

    def named(self, text: str) -> list[ServedResource]:
        """Resolves TYPE, TYPE.GROUP or TYPE.VERSION.GROUP to one kind or all of a category; empty if there is none.

        As for kubectl, plurals win over other names and whole groups over the beginnings of groups; the server's order
        decides among the rest.
        """
        name, _, rest = text.lower().partition(".")
        if not rest and (members := self._category(name)):
            return members
        for kinds in self._narrowed(rest):
            for rank in range(3):
                for kind in kinds:
                    if name in _names(kind)[rank]:
                        return [kind]
        return []

    def similar(self, text: str) -> list[str]:
        """Plurals that may have been meant."""
        plurals = dict.fromkeys(kind.plural for kind in self.kinds)
        return difflib.get_close_matches(text.lower().partition(".")[0], plurals, n=2)

    def _category(self, name: str) -> list[ServedResource]:
        members: dict[tuple[str, str], ServedResource] = {}
        for kind in self.kinds:
            if name in kind.categories:
                members.setdefault((kind.group, kind.plural), kind)
        return list(members.values())

    def _narrowed(self, rest: str) -> Iterator[list[ServedResource]]:
        if not rest:
            yield self.kinds
            return
        version, _, group = rest.partition(".")
        yield [kind for kind in self.kinds if (kind.version, kind.group) == (version, group)]
        yield [kind for kind in self.kinds if kind.group == rest]
        yield [kind for kind in self.kinds if kind.group.startswith(rest)]


def _names(resource: ServedResource) -> tuple[tuple[str, ...], ...]:
    """Returns the names of a resource, grouped by precedence."""
    return (resource.plural,), (resource.singular, resource.kind.lower()), resource.short_names


def wanted(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Types and names, of TYPE NAME... or TYPE/NAME...; raises UsageError for anything else."""
    slashed = ["/" in argument for argument in arguments]
    if not any(slashed):
        return [(arguments[0], [_name(given) for given in arguments[1:]])] if arguments else []
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
