"""GangScheduling: a pod is not tried before its PodGroup exists. Pods of a group are then placed one by one."""

from __future__ import annotations

from dray.api.pods import group_name
from dray.scheduling.groups import KIND
from dray.scheduling.model import Pod
from dray.scheduling.plugin import Plugin
from dray.scheduling.reasons import Code, ObjectRef, Reason
from dray.scheduling.state import State
from dray.scheduling.status import Status


class GangScheduling(Plugin):
    def __init__(self, state: State) -> None:
        self._groups = state.groups

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not self._groups.is_missing(pod):
            return None
        key = pod.key[0], group_name(pod.document)
        return Status(self.name, (Reason(Code.POD_GROUP_NOT_FOUND, key),), waits_for=(ObjectRef(KIND, *key),))
