"""ImageLocality: prefers nodes that have the images of the pod, the more the larger the images are."""

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
        names, sizes = cycle.pod.requirements.images, node.images
        if not names or not sizes:
            return 0
        # An image counts in proportion to the nodes that have it, so that not all pods go to the first such node.
        spread, nodes = self._state.images, max(1, self._state.size)
        total = sum(int(sizes[name] * (spread.get(name, 1) / nodes)) for name in names if name in sizes)
        most = _LARGE_IMAGE * len(names)
        return 100 * (min(max(total, _SMALL_IMAGES), most) - _SMALL_IMAGES) // (most - _SMALL_IMAGES)
