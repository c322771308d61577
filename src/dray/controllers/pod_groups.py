"""PodGroup protection: removes the finalizer of a deleted group once all its pods are terminal or gone.

A server gives every new group a finalizer, so that it stays for as long as its pods need it: claims are reserved for
the group, and its pods are placed by what it says.
"""

from __future__ import annotations

import asyncio

from dray.api.objects import Key, Object, finalizers_of, is_deleting, key_of
from dray.api.pods import group_name, is_terminal
from dray.api.strategy import PODGROUP_FINALIZER
from dray.client.cache import Change
from dray.client.discovery import OptionalInformer
from dray.controllers.environment import Environment, Workers, named
from dray.controllers.kinds import POD_GROUPS, PODS

_BY_GROUP = "podgroup: group"


class PodGroupProtection:
    """Protects PodGroups that pods use. Keys are namespace and name of groups."""

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._gated = not environment.gates["GenericWorkload"]
        self._workers: Workers[Key] = environment.workers(
            "podgroup protection", self.reconcile, called=named("PodGroup"), count=2
        )
        self._pods = environment.informers.of(PODS, {_BY_GROUP: _group_of})
        self._groups = OptionalInformer(environment.client, environment.informers, POD_GROUPS.group, POD_GROUPS.plural)

    async def run(self) -> None:
        if self._gated:
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as tasks:
            await self._groups.start()
            tasks.create_task(self._groups.run())
            self._groups.add_handler(self._group_changed)
            self._pods.add_handler(self._pod_changed)
            tasks.create_task(self._workers.run())

    def _group_changed(self, change: Change) -> None:
        if change.type != "DELETED" and is_deleting(change.object):
            self._workers.queue.add(change.key)

    def _pod_changed(self, change: Change) -> None:
        name = group_name(change.object)
        if name and (change.type == "DELETED" or is_terminal(change.object)):
            group = self._groups.cache.get(name, namespace=change.key[0])
            if group is not None and is_deleting(group):
                self._workers.queue.add(key_of(group))

    async def reconcile(self, key: Key) -> float | None:
        namespace, name = key
        group, version = self._groups.cache.get(name, namespace=namespace), self._groups.version
        if group is None or version is None or not is_deleting(group):
            return None
        finalizers = finalizers_of(group)
        if PODGROUP_FINALIZER not in finalizers:
            return None
        if not all(map(is_terminal, self._pods.cache.by(_BY_GROUP, "/".join(key)))):
            return None
        kept = [finalizer for finalizer in finalizers if finalizer != PODGROUP_FINALIZER]
        await self._client.update(version, {**group, "metadata": {**group["metadata"], "finalizers": kept}})
        return None


def _group_of(pod: Object) -> tuple[str, ...]:
    name = group_name(pod)
    return (f"{pod['metadata'].get('namespace')}/{name}",) if name else ()
