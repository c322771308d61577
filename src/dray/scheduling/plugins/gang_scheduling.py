"""GangScheduling: holds back a pod until its group exists and has as many pods as have to start together."""

from __future__ import annotations

from typing import Final

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.groups import native
from dray.scheduling.groups.forest import Flaw, Flawed
from dray.scheduling.groups.front_ends import APIS, CONTRADICTION
from dray.scheduling.groups.groups import reference
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, ObjectRef, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip

ANY_TOPOLOGY: Final = ObjectRef("Topology", "", "")
"""The object that pods wait for if they name levels that no Topology has."""
_CHECKS: Final = [api.pod_problem for api in APIS.values() if api.pod_problem is not None]


class GangScheduling(Plugin):
    depends_on = Depends.PODS

    def __init__(self, state: State) -> None:
        self._groups = state.groups

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if pod.group is None:
            return None
        group = self._groups.of(pod)
        if group is None:
            return self._not_found(pod.group) if self._groups.is_missing(pod) else None
        root = self._groups.root(group)
        if isinstance(root, Flawed):
            # A cycle or too deep a tree is reported by an attempt.
            return self._not_found(root.where) if root.flaw is Flaw.MISSING else None
        if group.key.kind != native.COMPOSITE and self._groups.forest.children(group):
            api = APIS.get(group.key.api)
            label = api.sub_group_label if api is not None else ""
            reason = Reason(Code.POD_BESIDE_SUB_GROUPS, (group.key.title, label))
            return Status(self.name, (reason,), waits_for=(reference(group.key),))
        for required in (root, group) if root is not group else (group,):
            if not self._groups.is_complete(required):
                return self._incomplete(required, root)
        return None

    def _not_found(self, key: GroupKey) -> Status:
        reason = Reason(Code.POD_GROUP_NOT_FOUND, (key.namespace, key.name))
        return Status(self.name, (reason,), waits_for=(reference(key),))

    def _incomplete(self, group: Group, root: Group) -> Status:
        if group.min_groups:
            reason = Reason(Code.TREE_INCOMPLETE, (group.key.title, str(group.min_groups)))
        else:
            number = self._groups.members(group.key).number
            reason = Reason(Code.GANG_INCOMPLETE, (group.key.title, str(number), str(max(1, group.min_count))))
        return Status(self.name, (reason,), waits_for=(reference(root.key),))

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        group = cycle.pod.group
        if group is not None and group.api == CONTRADICTION:
            return Status.of(self.name, Code.GANG_CONTRADICTION, group.name, resolvable=False)
        pod = cycle.pod
        if pod.joins and self._groups.topologies.served and (problem := self._topology_problem(pod)):
            reason = Reason(Code.TOPOLOGY_INVALID, (problem,))
            return Status(self.name, (reason,), resolvable=False, waits_for=(ANY_TOPOLOGY,))
        return SKIP

    def _topology_problem(self, pod: Pod) -> str:
        for check in _CHECKS:
            if problem := check(pod.document, self._groups.topologies):
                return problem
        return ""
