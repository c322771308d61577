"""Packing: how many interchangeable pods go to which node or domain, computed from the room that each has.

`best_fit` uses few places: the one with the most room first, and for the rest the tightest that suffices. `least_free`
fills the places with the least room first. With several levels of topology, `spread_over` chooses the coarsest domains
first, and then among all finer domains inside of these.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)


class Place(NamedTuple):
    room: int
    merit: int
    """Decides between places with equal room and equally many nodes: the highest merit is taken first."""
    nodes: int = 1
    """The number of nodes of a domain. Of places with equal room, those with few nodes are taken first."""

    @property
    def preference(self) -> tuple[int, int]:
        return -self.nodes, self.merit


def best_fit(places: Mapping[T, Place], number: int) -> Iterator[tuple[T, int]]:
    """Yields the places to use with the number of pods for each, in the order in which they are taken."""
    usable = ((place.room, place.preference, index) for index, place in enumerate(places.values()) if place.room > 0)
    order = sorted(usable)
    names, rooms = list(places), [room for room, _, _ in order]
    while number > 0 and order:
        position = bisect_left(rooms, number)
        room = rooms[min(position, len(rooms) - 1)]
        # The last place with equal room is the preferred one.
        position = bisect_left(rooms, room + 1) - 1
        amount = min(room, number)
        yield names[order.pop(position)[2]], amount
        rooms.pop(position)
        number -= amount


def least_free(places: Mapping[T, Place], number: int) -> Iterator[tuple[T, int]]:
    """Yields places and numbers like `best_fit`, the place with the least room first."""
    preferred = sorted(places.items(), key=lambda item: item[1].preference, reverse=True)
    for name, place in sorted(preferred, key=lambda item: item[1].room):
        if number <= 0:
            return
        if place.room > 0:
            yield name, min(place.room, number)
            number -= min(place.room, number)


def spread_over(
    places: Mapping[T, Place], domains: Mapping[T, Sequence[str]], number: int, *, least: bool = False
) -> Iterator[tuple[T, int]]:
    """Yields places and numbers like `best_fit` or `least_free`, level by level; `domains` are the label values of each
    place, the coarsest first."""
    fit = least_free if least else best_fit
    depth = max((len(domains.get(name, ())) for name in places), default=0)
    for level in range(1, depth + 1):
        within: dict[Sequence[str], dict[T, Place]] = {}
        for name, place in places.items():
            within.setdefault(tuple(domains[name][:level]), {})[name] = place
        whole = {
            path: Place(*(sum(numbers) for numbers in zip(*inner.values(), strict=True)))
            for path, inner in within.items()
        }
        chosen = [path for path, _ in fit(whole, number)]
        places = {name: place for path in chosen for name, place in within[path].items()}
    return fit(places, number)
