"""SchedulingGates: holds back a pod until all its scheduling gates are removed."""

from __future__ import annotations

from typing import Final

from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import Plugin


class SchedulingGates(Plugin):
    def pre_enqueue(self, pod: Pod) -> Status | None:
        return _STATUS if pod.document["spec"].get("schedulingGates") else None


_STATUS: Final = Status.of(SchedulingGates.name, Code.SCHEDULING_GATES)
