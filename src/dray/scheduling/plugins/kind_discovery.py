"""KindDiscovery: a pod that names an object of an unknown kind is not tried before the server was asked for it."""

from __future__ import annotations

from dray.scheduling.model import Pod
from dray.scheduling.plugin import Plugin
from dray.scheduling.reasons import Code, Reason
from dray.scheduling.state import State
from dray.scheduling.status import Status
from dray.scheduling.unknown_kinds import ANSWER


class KindDiscovery(Plugin):
    def __init__(self, state: State) -> None:
        self._kinds = state.unknown_kinds

    def pre_enqueue(self, pod: Pod) -> Status | None:
        missing = self._kinds.waits(pod)
        if not missing:
            return None
        return Status(self.name, (Reason(Code.KIND_UNKNOWN, (", ".join(missing),)),), waits_for=(ANSWER,))
