"""GpuFractions: shares of a GPU that a pod wants by annotations of KAI are not given; a claim has to ask for them."""

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
        if kai.API_GROUP in self._served and (said := cycle.pod.annotations):
            for each in kai.FRACTIONS:
                if each in said:
                    return Status.of(self.name, Code.GPU_FRACTION, each, resolvable=False)
        return SKIP
