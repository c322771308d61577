"""NodeResourcesBalancedAllocation: prefers nodes whose cpu and memory are used in equal parts."""

from __future__ import annotations

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model.node import Node
from dray.scheduling.plugin import Depends, Plugin


class NodeResourcesBalancedAllocation(Plugin):
    depends_on = Depends.PODS

    def score(self, cycle: Cycle, node: Node) -> int:
        requests = cycle.pod.requirements.requests
        if "cpu" not in requests and "memory" not in requests:
            return 0
        cpu, memory = node.allocatable.get("cpu", 0), node.allocatable.get("memory", 0)
        used_cpu, used_memory = node.requested.get("cpu", 0), node.requested.get("memory", 0)
        before = _balance(used_cpu, cpu, used_memory, memory)
        after = _balance(used_cpu + requests.get("cpu", 0), cpu, used_memory + requests.get("memory", 0), memory)
        return 50 + (50 + after - before) // 2


def _balance(used_cpu: int, cpu: int, used_memory: int, memory: int) -> int:
    """Returns 100 if cpu and memory are used in equal parts, 50 if one is full and the other empty."""
    if not cpu or not memory:
        return 100
    of_cpu, of_memory = min(1.0, used_cpu / cpu), min(1.0, used_memory / memory)
    return int((1 - abs((of_cpu - of_memory) / 2)) * 100)
