"""OptionalKind: a kind that a server may not have, or not yet, and that the scheduler reads where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dray.api.objects import Object
from dray.client.discovery import ServedResource

Ignored = Callable[[Object], Iterable[str]]
"""Returns the members of an object that dray ignores."""


@dataclass(frozen=True, slots=True)
class OptionalKind:
    group: str
    plural: str
    resource: ServedResource | None = None
    """The version to read. If None, as for kinds of Kubernetes, the newest served version is read."""
    owned: tuple[ServedResource, ...] = ()
    """The kind is read only if one of these is served and its system does not run in the cluster."""
    beside: ServedResource | None = None
    """The kind is read only if this other kind, which needs it, is served too."""
    quiet: bool = False
    """Whether changes of the status are ignored. The scheduler itself writes most of them."""
    ignored: Ignored = lambda _: ()
    told_everywhere: bool = False
    """Whether events about ignored members are also written if another system serves the kind."""


def foreign(
    resource: ServedResource, *owned: ServedResource, quiet: bool = False, ignored: Ignored = lambda _: ()
) -> OptionalKind:
    """A kind of another system."""
    return OptionalKind(resource.group, resource.plural, resource, owned, quiet=quiet, ignored=ignored)
