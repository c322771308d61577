"""Topologies: the Topology objects of several APIs, each a list of node labels from coarse to fine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from dray.api.objects import Key, Object, mapping, mappings, text
from dray.scheduling.model.group import Path

KIND: Final = "Topology"
PLURAL: Final = "topologies"


class Level(NamedTuple):
    label: str
    alias: str


class Topologies:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Level, ...]] = {}
        self.served: set[str] = set()
        """The API groups whose Topology objects are read. Topology requests for other systems are ignored."""
        self._of_queue: Callable[[Key], tuple[str, ...]] = lambda _: ()

    def find_by_queue(self, of_queue: Callable[[Key], tuple[str, ...]]) -> None:
        """Sets how the Topologies of a queue are found."""
        self._of_queue = of_queue

    def of_queue(self, queue: Key) -> tuple[str, ...]:
        """Returns the names of the Topologies that a queue uses, by namespace and name of the queue."""
        return self._of_queue(queue)

    def put(self, kind: str, document: Object) -> bool:
        """Reads a Topology; returns whether its levels changed."""
        key = _api_of(kind), document["metadata"]["name"]
        levels = tuple(
            Level(text(level.get("nodeLabel")), text(level.get("alias")))
            for level in mappings(mapping(document.get("spec")).get("levels"))
            if level.get("nodeLabel")
        )
        before = self._known.get(key)
        self._known[key] = levels
        self.served.add(key[0])
        return before != levels

    def remove(self, kind: str, document: Object) -> None:
        self._known.pop((_api_of(kind), document["metadata"]["name"]), None)

    def levels(self, api: str, name: str) -> Path | None:
        """The node labels of a Topology; None if it does not exist."""
        levels = self._known.get((api, name))
        return tuple(level.label for level in levels) if levels is not None else None

    def path(self, api: str, name: str, level: str) -> Path | None:
        """The node labels down to a level, named by its label or alias; None if there is no such level."""
        levels = self._known.get((api, name), ())
        for depth, candidate in enumerate(levels, 1):
            if level in (candidate.label, candidate.alias) and level:
                return tuple(above.label for above in levels[:depth])
        return None

    def number(self, api: str) -> int:
        """The number of Topologies of an API group."""
        return sum(of == api for of, _ in self._known)

    def with_level(self, api: str, level: str, among: Sequence[str] = ()) -> str:
        """The name of a Topology that has the level (any Topology if `level` is empty); empty if there is none.

        Topologies in `among` are preferred in their order, then the first by name.
        """
        names = [
            name
            for name in sorted(name for of, name in self._known if of == api)
            if not level or self.path(api, name, level) is not None
        ]
        return next((name for name in among if name in names), names[0] if names else "")


def _api_of(kind: str) -> str:
    """The API group of a kind under which the scheduler receives objects."""
    return kind.removeprefix(f"{KIND}.")
