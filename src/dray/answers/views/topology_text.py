"""The topology of a node as lines of text, and as a document for `-o json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from dray.allocation.device_states import STATES, DeviceState
from dray.allocation.text import Tree, lines
from dray.answers.views.device_facts import attribute
from dray.answers.views.device_tables import holder_documents, state_text
from dray.answers.views.topology_model import Entry, Spot, kind_text
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
        made["devices"] = [_device_document(entry.state, entry.parts) for entry in spot.entries]
    if spot.spots:
        made["places"] = [document_of(child) for child in spot.spots]
    return made


def _device_document(state: DeviceState, parts: Sequence[DeviceState] = ()) -> Object:
    driver, pool, name = state.place
    made: Object = {"driver": driver, "pool": pool, "device": name, "state": state.state}
    if state.holders:
        made["claims"] = holder_documents(state)
    if parts:
        made["partitions"] = [_device_document(part) for part in parts]
    return made


def _tree(spot: Spot) -> Tree:
    title = _TITLES[spot.kind].format(spot.name)
    label = f"{title}: {count_text(spot.all_entries())}" if spot.kind in ("node", "numa") else title
    branches = [*_device_trees(spot.entries), *map(_tree, spot.spots)]
    return Tree(label, branches)


def count_text(entries: list[Entry]) -> str:
    """Returns how many devices are in which state."""
    counts = Counter(entry.state.state for entry in entries)
    parts = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return f"{len(entries)} devices, {parts}" if len(entries) > 1 else f"1 device, {parts}"


def _device_trees(entries: list[Entry]) -> Iterator[Tree]:
    """Yields one line for many devices of one kind in the same state, such as single CPUs."""
    for alike in similar_entries(entries):
        if len(alike) > 1:
            kind = kind_text(alike[0]) or alike[0].state.place[0]
            yield Tree(f"{len(alike)} × {kind} ({name_range(alike)}): {_state(alike[0].state)}")
        else:
            yield _device_tree(alike[0])


def similar_entries(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Yields lists of many devices that differ only in their names, and every other device in a list of its own."""
    for _, group in groupby(entries, _similarity_key):
        alike = list(group)
        yield from [alike] if len(alike) > _MANY else ([entry] for entry in alike)


def name_range(alike: list[Entry]) -> str:
    """Returns the first and the last name of similar devices."""
    return f"{alike[0].name} … {alike[-1].name}"


def _similarity_key(entry: Entry) -> tuple[object, ...]:
    alone = () if not entry.parts else (entry.name,)
    return (entry.state.place[:2], kind_text(entry), _state(entry.state), *alone)


def _device_tree(entry: Entry) -> Tree:
    title = f"{entry.name} ({kind})" if (kind := kind_text(entry)) else entry.name
    held = [part for part in entry.parts if part.holders]
    label = f"{title}: {_state(entry.state)}"
    free = Counter(attribute(part.document, "profile") for part in entry.parts if part.state == "free")
    branches = [Tree(f"{part.place[2]}: {_state(part)}") for part in held]
    if free:
        offers = ", ".join(f"{count} × {name}" for name, count in sorted(free.items()))
        branches.append(Tree(f"partitions that can be made, one at a time: {offers}"))
    return Tree(label, branches)


def _state(state: DeviceState) -> str:
    text = state_text(state)
    if not state.holders:
        return text
    return f"{text} by {', '.join(holder_texts(state))}"


def holder_texts(state: DeviceState) -> list[str]:
    """Returns the claims that have the device, each with the pods that use it."""
    return [f"{holder.text} of {', '.join(holder.pods)}" if holder.pods else holder.text for holder in state.holders]
