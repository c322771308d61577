"""Layouts of nodes that were made before: they hold for as long as a node has the same slices.

To lay out 5,000 nodes takes half a second, half of what the first picture of the cluster takes on the server. The
history has it done beforehand, in its thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import is_not

from dray.api.objects import Object, spec_of
from dray.web.devices.holdings import is_plain
from dray.web.devices.layouts import Layout, layout_of


class KnownLayouts:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Sequence[Object], Layout, bool]] = {}

    def of(self, node: str, slices: Sequence[Object]) -> tuple[Layout, bool]:
        """The layout of a node, and whether its devices are plain (`is_plain`)."""
        known = self._known.get(node)
        if known is None or len(known[0]) != len(slices) or any(map(is_not, known[0], slices)):
            known = self._known[node] = slices, layout_of(slices), is_plain(slices)
        return known[1], known[2]

    def renew(self, slices: Iterable[Object]) -> None:
        """Makes the layouts of all nodes that have slices, and forgets those of others."""
        nodes: dict[str, list[Object]] = defaultdict(list)
        for each in slices:
            if node := spec_of(each).get("nodeName"):
                nodes[node].append(each)
        for node, own in nodes.items():
            self.of(node, own)
        for node in self._known.keys() - nodes.keys():
            self._known.pop(node, None)
