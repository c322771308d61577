"""GangScheduling: a pod is not tried before its group exists, and as many pods of it as must start together."""

from __future__ import annotations

from dray.scheduling.cycle import Cycle
from dray.scheduling.front_ends import CONTRADICTION
from dray.scheduling.groups import reference
from dray.scheduling.model import Pod
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip
from dray.scheduling.reasons import Code, Reason
from dray.scheduling.state import State
from dray.scheduling.status import Status


class GangScheduling(Plugin):
    depends_on = Depends.PODS

    def __init__(self, state: State) -> None:
        self._groups = state.groups

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if pod.group is None:
            return None
        group = self._groups.of(pod)
        if group is None:
            if not self._groups.is_missing(pod):
                return None
            reason = Reason(Code.POD_GROUP_NOT_FOUND, (pod.group.namespace, pod.group.name))
        elif not self._groups.is_complete(group):
            number = self._groups.members(group.key).number
            reason = Reason(Code.GANG_INCOMPLETE, (group.key.title, str(number), str(group.min_count)))
        else:
            return None
        return Status(self.name, (reason,), waits_for=(reference(pod.group),))

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        group = cycle.pod.group
        if group is not None and group.api == CONTRADICTION:
            return Status.of(self.name, Code.GANG_CONTRADICTION, group.name, resolvable=False)
        return SKIP
