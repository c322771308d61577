"""Topologies: lists of node labels from coarse to fine, as Kueue and KAI have them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from dray.api.objects import Key, Object, mapping, mappings, text
from dray.scheduling.model.group import Path

KAI: Final = "kai.scheduler"
KUEUE: Final = "kueue.x-k8s.io"
KIND: Final = "Topology"
PLURAL: Final = "topologies"
KINDS: Final = {f"{KIND}.{api}": api for api in (KAI, KUEUE)}
"""By the name under which objects are given to the scheduler."""


class Level(NamedTuple):
    label: str
    alias: str


class Topologies:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Level, ...]] = {}
        self.served: set[str] = set()
        """The APIs of those that there can be. Of others, another system acts on what pods say of topology."""
        self.of_queue: Callable[[Key], tuple[str, ...]] = lambda _: ()
        """Those of Kueue that the flavors of a LocalQueue name."""

    def put(self, kind: str, document: Object) -> bool:
        """Whether it says something else than before."""
        key = KINDS[kind], document["metadata"]["name"]
        levels = tuple(
            Level(text(each.get("nodeLabel")), text(each.get("alias")))
            for each in mappings(mapping(document.get("spec")).get("levels"))
            if each.get("nodeLabel")
        )
        before = self._known.get(key)
        self._known[key] = levels
        self.served.add(key[0])
        return before != levels

    def remove(self, kind: str, document: Object) -> None:
        self._known.pop((KINDS[kind], document["metadata"]["name"]), None)

    def levels(self, api: str, name: str) -> Path | None:
        found = self._known.get((api, name))
        return tuple(each.label for each in found) if found is not None else None

    def path(self, api: str, name: str, level: str) -> Path | None:
        """Down to a level, by its label or its alias; None where there is none such."""
        found = self._known.get((api, name), ())
        for depth, each in enumerate(found, 1):
            if level in (each.label, each.alias) and level:
                return tuple(one.label for one in found[:depth])
        return None

    def number(self, api: str) -> int:
        return sum(of == api for of, _ in self._known)

    def with_level(self, api: str, level: str, among: Sequence[str] = ()) -> str:
        """The name of the first that has such a level, or of the first at all, of those or else of any; empty where
        there is none."""
        names = list(self._named(api, level))
        return next((each for each in among if each in names), names[0] if names else "")

    def _named(self, api: str, level: str) -> Iterator[str]:
        names = sorted(name for of, name in self._known if of == api)
        return iter([each for each in names if not level or self.path(api, each, level) is not None])
