"""GangScheduling: a pod is not tried before its group exists, and as many pods of it as must start together."""

from __future__ import annotations

from dray.scheduling.groups import reference
from dray.scheduling.model import Pod
from dray.scheduling.plugin import Plugin
from dray.scheduling.reasons import Code, Reason
from dray.scheduling.state import State
from dray.scheduling.status import Status


class GangScheduling(Plugin):
    def __init__(self, state: State) -> None:
        self._groups = state.groups

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if pod.group is None or not self._groups.served:
            return None
        group = self._groups.of(pod)
        if group is None:
            reason = Reason(Code.POD_GROUP_NOT_FOUND, (pod.group.namespace, pod.group.name))
        elif not self._groups.is_complete(group):
            number = self._groups.members(group.key).number
            reason = Reason(Code.GANG_INCOMPLETE, (group.key.title, str(number), str(group.min_count)))
        else:
            return None
        return Status(self.name, (reason,), waits_for=(reference(pod.group),))
