"""NodePorts: rejects nodes where a host port of the pod is in use."""

from __future__ import annotations

from typing import Final

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip


class NodePorts(Plugin):
    depends_on = Depends.PODS

    def prefilter(self, cycle: Cycle) -> Skip | None:
        return None if cycle.pod.requirements.ports else SKIP

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        return _STATUS if node.ports and node.ports.collide(cycle.pod.requirements.ports) else None


_STATUS: Final = Status.of(NodePorts.name, Code.HOST_PORTS)
