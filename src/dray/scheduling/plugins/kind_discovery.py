"""KindDiscovery: holds back a pod that names an object of an unknown kind until the server was asked for the kind."""

from __future__ import annotations

from dray.scheduling.core.state import State
from dray.scheduling.groups.unknown_kinds import ANSWER
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import Plugin


class KindDiscovery(Plugin):
    def __init__(self, state: State) -> None:
        self._kinds = state.unknown_kinds

    def pre_enqueue(self, pod: Pod) -> Status | None:
        missing = self._kinds.waits(pod) if self._kinds.wanted is not None else ()
        if not missing:
            return None
        return Status(self.name, (Reason(Code.KIND_UNKNOWN, (", ".join(missing),)),), waits_for=(ANSWER,))
