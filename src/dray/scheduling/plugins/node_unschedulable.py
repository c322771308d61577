"""NodeUnschedulable: rejects cordoned nodes, unless the pod tolerates the unschedulable taint."""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import Depends, Plugin

_TAINT: Final[Object] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class NodeUnschedulable(Plugin):
    depends_on = Depends.NODE

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        if not node.unschedulable or cycle.pod.requirements.tolerations.cover(_TAINT):
            return None
        return _STATUS


_STATUS: Final = Status.of(NodeUnschedulable.name, Code.NODE_UNSCHEDULABLE, resolvable=False)
