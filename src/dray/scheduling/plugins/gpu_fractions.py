"""GpuFractions: rejects pods that request a share of a GPU by annotations of KAI; a ResourceClaim has to do that."""

from __future__ import annotations

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.groups import kai
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip


class GpuFractions(Plugin):
    depends_on = Depends.PODS

    def __init__(self, state: State) -> None:
        self._served = state.groups.served

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        if kai.API_GROUP in self._served and (annotations := cycle.pod.annotations):
            for name in kai.FRACTIONS:
                if name in annotations:
                    return Status.of(self.name, Code.GPU_FRACTION, name, resolvable=False)
        return SKIP
