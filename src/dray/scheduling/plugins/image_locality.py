"""ImageLocality: nodes that have the pod's images already are better, the larger the images are."""

from __future__ import annotations

from typing import Final

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.plugin import Depends, Plugin

_SMALL_IMAGES: Final = 23 * 1024 * 1024
_LARGE_IMAGE: Final = 1000 * 1024 * 1024


class ImageLocality(Plugin):
    depends_on = Depends.NODE

    def __init__(self, state: State) -> None:
        self._state = state

    def score(self, cycle: Cycle, node: Node) -> int:
        names, there = cycle.pod.requirements.images, node.images
        if not names or not there:
            return 0
        # An image counts the more the more nodes have it, lest all pods follow the first one.
        spread, nodes = self._state.images, max(1, self._state.size)
        total = sum(int(there[name] * (spread.get(name, 1) / nodes)) for name in names if name in there)
        most = _LARGE_IMAGE * len(names)
        return 100 * (min(max(total, _SMALL_IMAGES), most) - _SMALL_IMAGES) // (most - _SMALL_IMAGES)
