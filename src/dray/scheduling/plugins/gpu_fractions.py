"""GpuFractions: rejects pods that request a share of a GPU by annotations. They have to use a ResourceClaim."""

from __future__ import annotations

from typing import Final

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.groups.front_ends import APIS
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip

_UNSUPPORTED: Final = {name: api.unsupported_annotations for name, api in APIS.items() if api.unsupported_annotations}


class GpuFractions(Plugin):
    depends_on = Depends.PODS

    def __init__(self, state: State) -> None:
        self._served = state.groups.served

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        if annotations := cycle.pod.annotations:
            for api, unsupported in _UNSUPPORTED.items():
                named = [name for name in unsupported if name in annotations]
                if named and api in self._served:
                    return Status.of(self.name, Code.GPU_FRACTION, named[0], resolvable=False)
        return SKIP
