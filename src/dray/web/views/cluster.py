"""The cluster view: every device of every node, where it sits and who holds it.

The snapshot has columns: names, racks, states and layouts of nodes, one letter for the state of each device, and lists
of numbers for holders and utilization. Devices are numbered node by node, in the order of the node's layout. A change
names the devices, claims and nodes that are different. The source is outdated, and the feed makes another, when nodes
have other devices, when much changes at once, or when most of the claims that were numbered are gone.

    {"racks": [...], "nodes": {"names": [...], "racks": [...], "states": [...], "layouts": [...]},
     "layouts": [[shape, ...]], "shapes": [[name, driver, ...]], "states": "faf...",
     "held": [device, claim, share, ...], "busy": [device, percent, ...],
     "claims": {"0": [namespace, name, queue, since, pod...]}, "whole": true, "apart": 0}

`apart` is the number of devices that are not those of a single node; they are not on the map.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from dray.api.objects import Key, Object, key_of, spec_of
from dray.api.pods import claims_used, extended_claim, is_terminal
from dray.api.resource_claims import devices_of
from dray.client.cache import Change
from dray.web.devices.holdings import Holding, claim_row, holdings, plain_holdings, queue_of
from dray.web.devices.layouts import Layout, LayoutTable
from dray.web.devices.racks import node_state, rack_of
from dray.web.view import Question, View

_MOST_NODES: Final = 1000
"""Nodes that are looked at again in one change; a new source is made in a thread, changes hold up the event loop."""
_MOST_IDS: Final = 1000
"""Numbers of claims that are gone, beside one for each that is there: a page that is open for hours forgets them."""


@dataclass(slots=True)
class _Node:
    """A node that has devices."""

    number: int
    first: int
    """The number of its first device."""
    layout: Layout
    held: list[Holding]


@dataclass(slots=True)
class _Pending:
    """What changed since the last frame."""

    nodes: set[str] = field(default_factory=set)
    """Nodes whose devices have to be looked at."""
    states: set[str] = field(default_factory=set)
    """Nodes that became ready, not ready, or were cordoned."""
    claims: set[Key] = field(default_factory=set)
    structure: bool = False


class ClusterSource:
    in_thread = False

    def __init__(self, question: Question) -> None:
        self._question = question
        self._pending = _Pending()
        self._build()

    @property
    def is_outdated(self) -> bool:
        claims = len(self._question.model.table("claims").objects)
        forgotten = len(self._ids) > 2 * claims + _MOST_IDS
        return self._pending.structure or len(self._pending.nodes) > _MOST_NODES or forgotten

    def take(self, kind: str, change: Change) -> None:
        if not self._question.sight.sees(kind, change.key[0]):
            return
        match kind:
            case "claims":
                self._take_claim(change)
            case "pods":
                self._take_pod(change)
            case "slices":
                self._take_slice(change)
            case "nodes":
                self._take_node(change)
            case "taintrules":
                self._has_rules = bool(self._rules())
                self._pending.nodes.update(self._nodes)

    def change(self) -> Any | None:
        pending, self._pending = self._pending, _Pending()
        devices = [entry for name in pending.nodes if name in self._nodes for entry in self._renewed(name)]
        states = {str(self._nodes[name].number): self._state(name) for name in pending.states if name in self._nodes}
        claims = {str(self._ids[key]): self._claim(key) for key in pending.claims if key in self._ids}
        claims |= self._fresh_claims()
        made = {"devices": devices, "nodes": states, "claims": claims}
        return {name: value for name, value in made.items() if value} or None

    def snapshot(self) -> Any:
        held = [
            number
            for node in self._nodes.values()
            for place, each in enumerate(node.held)
            for key, share in each.claims
            for number in (node.first + place, self._id(key), share)
        ]
        busy = [
            number
            for node in self._nodes.values()
            for place, each in enumerate(node.held)
            if each.busy >= 0
            for number in (node.first + place, each.busy)
        ]
        self._fresh.clear()
        return {
            "racks": list(self._racks),
            "nodes": {
                "names": list(self._nodes),
                "racks": self._node_racks,
                "states": [self._state(name) for name in self._nodes],
                "layouts": [self._table.number(node.layout.shapes) for node in self._nodes.values()],
            },
            **self._table.document(),
            "states": "".join(each.state for node in self._nodes.values() for each in node.held),
            "held": held,
            "busy": busy,
            "claims": {str(number): self._claim(key) for key, number in self._ids.items()},
            "whole": self._all_seen,
            "apart": sum(self._apart.values()),
        }

    def _build(self) -> None:
        question = self._question
        self._all_seen = question.sight.sees_all("claims")
        self._ids: dict[Key, int] = {}
        self._fresh: set[Key] = set()
        self._table = LayoutTable()
        self._slices: dict[str, dict[Key, Object]] = defaultdict(dict)
        self._apart: dict[Key, int] = {}
        for each in question.objects("slices"):
            if node := spec_of(each).get("nodeName"):
                self._slices[node][key_of(each)] = each
            elif number := len(spec_of(each).get("devices") or ()):
                self._apart[key_of(each)] = number
        self._users: dict[Key, dict[Key, Object]] = defaultdict(dict)
        for pod in question.objects("pods"):
            for key in _claims_of(pod):
                self._users[key][key_of(pod)] = pod
        self._lay_out()
        self._claims: dict[str, dict[Key, Object]] = defaultdict(dict)
        self._has_rules = bool(self._rules())
        for claim in question.objects("claims"):
            for name in self._nodes_of(claim):
                self._claims[name][key_of(claim)] = claim
        for name, node in self._nodes.items():
            node.held = self._held(name, node.layout)

    def _lay_out(self) -> None:
        self._racks: dict[str, int] = {}
        self._node_racks: list[int] = []
        self._nodes: dict[str, _Node] = {}
        self._plain: set[str] = set()
        """Nodes whose devices are free or held whole."""
        self._homes: dict[tuple[str, str], str] = {}
        """The node of each pool of a driver."""
        known = {key_of(each)[1]: rack_of(each) for each in self._question.objects("nodes")}
        first = 0
        for name in sorted(self._slices, key=lambda each: (known.get(each, ""), len(each), each)):
            layout, plain = self._known_layout(name)
            if not layout.places:
                continue
            self._table.number(layout.shapes)
            if plain:
                self._plain.add(name)
            self._nodes[name] = _Node(len(self._nodes), first, layout, [])
            self._node_racks.append(self._racks.setdefault(known.get(name, "other nodes"), len(self._racks)))
            self._homes |= {place[:2]: name for place in layout.places}
            first += len(layout.places)

    def _known_layout(self, name: str) -> tuple[Layout, bool]:
        """The layout of a node and whether it is plain."""
        return self._question.services.layouts.of(name, list(self._slices[name].values()))

    def _held(self, name: str, layout: Layout) -> list[Holding]:
        claims = self._claims.get(name, {})
        if name in self._plain and not self._has_rules:
            free, held = plain_holdings(claims.values(), all_seen=self._all_seen)
            return [held.get(place, free) for place in layout.places]
        pods = {key_of(pod): pod for key in claims for pod in self._users.get(key, {}).values()}
        found = holdings(
            list(self._slices[name].values()), claims.values(), pods.values(), self._rules(), all_seen=self._all_seen
        )
        nothing = Holding()
        return [found.get(place, nothing) for place in layout.places]

    def _rules(self) -> list[Object]:
        return list(self._question.objects("taintrules"))

    def _renewed(self, name: str) -> list[list[Any]]:
        """Devices of a node that are different now: number, state, utilization, and holders with their shares."""
        node = self._nodes[name]
        before, node.held = node.held, self._held(name, node.layout)
        return [
            [node.first + place, now.state, now.busy, [[self._id(key), share] for key, share in now.claims]]
            for place, (old, now) in enumerate(zip(before, node.held, strict=True))
            if old != now
        ]

    def _id(self, key: Key) -> int:
        if key not in self._ids:
            self._ids[key] = len(self._ids)
            self._fresh.add(key)
        return self._ids[key]

    def _fresh_claims(self) -> dict[str, Any]:
        fresh, self._fresh = self._fresh, set()
        return {str(self._ids[key]): self._claim(key) for key in fresh}

    def _claim(self, key: Key) -> list[str]:
        claim = self._question.get("claims", key[1], namespace=key[0])
        return claim_row(claim, self._users.get(key, {}).values()) if claim is not None else [*key, "", ""]

    def _state(self, name: str) -> int:
        node = self._question.get("nodes", name)
        return node_state(node) if node is not None else 0

    def _nodes_of(self, claim: Object) -> set[str]:
        return {home for driver, pool, _ in devices_of(claim) if (home := self._homes.get((driver, pool)))}

    def _take_claim(self, change: Change) -> None:
        for name in self._nodes_of(change.previous or {}):
            self._claims[name].pop(change.key, None)
            self._pending.nodes.add(name)
        if change.type != "DELETED":
            for name in self._nodes_of(change.object):
                self._claims[name][change.key] = change.object
                self._pending.nodes.add(name)

    def _take_pod(self, change: Change) -> None:
        before = _uses(change.previous) if change.previous is not None else (frozenset(), "")
        now = _uses(change.object) if change.type != "DELETED" else (frozenset(), "")
        if change.previous is not None:
            for key in before[0]:
                users = self._users[key]
                users.pop(change.key, None)
                if not users:
                    del self._users[key]
        for key in now[0]:
            self._users[key][change.key] = change.object
        if before != now:
            self._pending.claims |= before[0] | now[0]

    def _take_slice(self, change: Change) -> None:
        name = spec_of(change.object).get("nodeName")
        if not name:
            number = 0 if change.type == "DELETED" else len(spec_of(change.object).get("devices") or ())
            self._pending.structure = self._pending.structure or self._apart.get(change.key, 0) != number
            return
        if change.type == "DELETED":
            self._slices[name].pop(change.key, None)
        else:
            self._slices[name][change.key] = change.object
        node = self._nodes.get(name)
        layout, plain = self._known_layout(name)
        (self._plain.add if plain else self._plain.discard)(name)
        if node is not None and layout == node.layout:
            self._pending.nodes.add(name)
        else:
            self._pending.structure = True

    def _take_node(self, change: Change) -> None:
        before = change.previous
        if before is None or change.type == "DELETED" or rack_of(before) != rack_of(change.object):
            self._pending.structure = self._pending.structure or change.key[1] in self._slices
        elif node_state(before) != node_state(change.object):
            self._pending.states.add(change.key[1])


def _uses(pod: Object) -> tuple[frozenset[Key], str]:
    """The claims that a pod uses, and its queue."""
    claims = _claims_of(pod)
    return claims, queue_of(pod) if claims else ""


def _claims_of(pod: Object) -> frozenset[Key]:
    extended = extended_claim(pod)
    if is_terminal(pod) or not (extended or spec_of(pod).get("resourceClaims")):
        return frozenset()
    namespace = key_of(pod)[0]
    names = {*(name for _, name in claims_used(pod)), extended} - {""}
    return frozenset((namespace, name) for name in names)


VIEW: Final = View("cluster", ("nodes", "slices", "claims", "pods", "taintrules"), source=ClusterSource)
