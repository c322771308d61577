"""Status of PodGroups of `scheduling.x-k8s.io`: phase and numbers of pods, where dray serves the kind itself.

Phases: Pending until there are `minMember` pods, Scheduling until so many run or have succeeded, Running, and in the
end Finished or Failed, which stay.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

from dray.api.objects import Key, Object, bounded, labels_of, mapping, mappings, status_of
from dray.api.pods import phase_of
from dray.api.quantity import INT32_MAX
from dray.client.cache import Change
from dray.client.discovery import OptionalInformer
from dray.client.foreign_kinds import COSCHEDULING, is_own
from dray.client.interface import PatchType
from dray.controllers.environment import Environment, Workers, named
from dray.controllers.kinds import PODS
from dray.scheduling.groups.coscheduling import LABEL

_BY_GROUP: Final = "coscheduling: group"
_LAST: Final = ("Finished", "Failed")


class Coscheduling:
    """Keeps the status of PodGroups current. Keys are namespace and name of groups."""

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._own: bool | None = None
        """Whether dray serves the kind; None until that was asked."""
        self._workers: Workers[Key] = environment.workers(
            "coscheduling", self.reconcile, called=named("PodGroup"), count=2
        )
        self._pods = environment.informers.of(PODS, {_BY_GROUP: _group_of})
        self._groups = OptionalInformer(
            environment.client, environment.informers, COSCHEDULING.group, COSCHEDULING.plural, version=COSCHEDULING
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            await self._groups.start()
            tasks.create_task(self._groups.run())
            self._groups.add_handler(lambda change: self._workers.queue.add(change.key))
            self._pods.add_handler(self._pod_changed)
            tasks.create_task(self._workers.run())

    def _pod_changed(self, change: Change) -> None:
        if name := labels_of(change.object).get(LABEL):
            self._workers.queue.add((change.key[0], name))

    async def _is_own(self) -> bool:
        if self._own is None:
            self._own = await is_own(self._client, COSCHEDULING)
        return self._own

    async def reconcile(self, key: Key) -> float | None:
        group = self._groups.cache.get(key[1], namespace=key[0])
        if group is None or not await self._is_own():
            return None
        pods = sorted(self._pods.cache.by(_BY_GROUP, "/".join(key)), key=_age)
        wanted = status(group, pods)
        known = status_of(group)
        if any(known.get(member) != value for member, value in wanted.items()):
            body = {"metadata": {"uid": group["metadata"]["uid"]}, "status": wanted}
            await self._client.patch(
                COSCHEDULING, key[1], body, namespace=key[0], patch_type=PatchType.MERGE, subresource="status"
            )
        return None


def status(group: Object, pods: Iterable[Object]) -> Object:
    """Computes the phase and the pod counts of a group's status from its pods."""
    found = list(pods)
    phases = Counter(map(phase_of, found))
    running, succeeded, failed = phases["Running"], phases["Succeeded"], phases["Failed"]
    least = bounded(mapping(group.get("spec")).get("minMember"), 0, INT32_MAX)
    phase = status_of(group).get("phase")
    if phase not in _LAST:
        phase = "Scheduling" if running + succeeded < least else "Running"
        if len(found) < least:
            phase = "Pending"
        elif failed and failed + running + succeeded >= least:
            phase = "Failed"
        elif least and succeeded >= least:
            phase = "Finished"
    wanted = {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}
    owners = mappings(found[0]["metadata"].get("ownerReferences")) if found else []
    if owners:
        wanted["occupiedBy"] = ",".join(f"{group['metadata']['namespace']}/{owner.get('name')}" for owner in owners)
    return wanted


def _age(pod: Object) -> tuple[str, str]:
    return str(pod["metadata"].get("creationTimestamp") or ""), str(pod["metadata"].get("name"))


def _group_of(pod: Object) -> tuple[str, ...]:
    name = labels_of(pod).get(LABEL)
    return (f"{pod['metadata'].get('namespace')}/{name}",) if name else ()
