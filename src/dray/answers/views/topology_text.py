"""The topology of a node as lines of text, and as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from dray.allocation.device_states import STATES, DeviceState
from dray.allocation.text import Tree, lines
from dray.answers.views.device_facts import attribute
from dray.answers.views.device_tables import described
from dray.answers.views.topology_model import Entry, Spot, what
from dray.api.objects import Object
from dray.api.printable import printable

_TITLES: Final = {"node": "node {}", "socket": "socket {}", "numa": "NUMA node {}", "root": "{}"}
_MANY: Final = 4


def text_of(node: Spot) -> Iterator[str]:
    tree = _tree(node)
    for title, names in node.links:
        tree.branches.append(Tree(f"{title}: {', '.join(names)}"))
    return map(printable, lines(tree))


def document_of(spot: Spot) -> Object:
    made: Object = {"kind": spot.kind, "name": spot.name}
    if spot.links:
        made["links"] = [{"kind": title, "devices": list(names)} for title, names in spot.links]
    if spot.entries:
        made["devices"] = [_device(each.state, each.parts) for each in spot.entries]
    if spot.spots:
        made["places"] = [document_of(each) for each in spot.spots]
    return made


def _device(state: DeviceState, parts: Sequence[DeviceState] = ()) -> Object:
    driver, pool, name = state.place
    made: Object = {"driver": driver, "pool": pool, "device": name, "state": state.state}
    if state.holders:
        made["claims"] = [
            {"claim": each.claim, "pods": list(each.pods), "consumedCapacity": dict(each.share)}
            for each in state.holders
        ]
    if parts:
        made["partitions"] = [_device(each) for each in parts]
    return made


def _tree(spot: Spot) -> Tree:
    title = _TITLES[spot.kind].format(spot.name)
    label = f"{title}: {tally(spot.all_entries())}" if spot.kind in ("node", "numa") else title
    branches = [*_entries(spot.entries), *map(_tree, spot.spots)]
    return Tree(label, branches)


def tally(entries: list[Entry]) -> str:
    counts = Counter(each.state.state for each in entries)
    parts = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"{len(entries)} devices, {parts}" if len(entries) > 1 else f"1 device, {parts}"


def _entries(entries: list[Entry]) -> Iterator[Tree]:
    """Many of one kind in the same state, such as single CPUs, are one line."""
    for alike in groups(entries):
        if len(alike) > 1:
            kind = what(alike[0]) or alike[0].state.place[0]
            yield Tree(f"{len(alike)} × {kind} ({span(alike)}): {_state(alike[0].state)}")
        else:
            yield _entry(alike[0])


def groups(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Those that differ in their names alone, if they are many; every other by itself."""
    for _, group in groupby(entries, _likeness):
        alike = list(group)
        yield from [alike] if len(alike) > _MANY else ([each] for each in alike)


def span(alike: list[Entry]) -> str:
    return f"{alike[0].name} … {alike[-1].name}"


def _likeness(entry: Entry) -> tuple[object, ...]:
    alone = () if not entry.parts else (entry.name,)
    return (entry.state.place[:2], what(entry), _state(entry.state), *alone)


def _entry(entry: Entry) -> Tree:
    title = f"{entry.name} ({kind})" if (kind := what(entry)) else entry.name
    held = [each for each in entry.parts if each.holders]
    label = f"{title}: {_state(entry.state)}"
    free = Counter(attribute(each.document, "profile") for each in entry.parts if each.state == "free")
    branches = [Tree(f"{each.place[2]}: {_state(each)}") for each in held]
    if free:
        offers = ", ".join(f"{count} × {name}" for name, count in sorted(free.items()))
        branches.append(Tree(f"partitions that can be made, one at a time: {offers}"))
    return Tree(label, branches)


def _state(state: DeviceState) -> str:
    text = described(state)
    if not state.holders:
        return text
    return f"{text} by {', '.join(holder(state))}"


def holder(state: DeviceState) -> list[str]:
    """Claims, and the pods that use them."""
    return [f"{each.text} of {', '.join(each.pods)}" if each.pods else each.text for each in state.holders]
