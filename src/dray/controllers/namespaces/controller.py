"""The namespace controller: finishes namespaces that are terminating.

Another one may do the same at the same time, as beside `dray apiserver`: each step is one that may be taken twice.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, is_deleting, spec_of, status_of
from dray.client.cache import Change
from dray.client.clock import moment, timestamp
from dray.client.discovery import Discovered, discover
from dray.client.errors import NotFound
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import NAMESPACES
from dray.controllers.namespaces.contents import Report, empty, updated

FINALIZER: Final = "kubernetes"
_NEEDED: Final = frozenset({"delete", "list"})
_PODS: Final = ("", "pods")
_SHORTEST, _LONGEST = 0.2, 8.0


class NamespaceController(QueueController[str]):
    """Keyed by the names of namespaces."""

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._time = environment.time
        self._workers = environment.workers("namespaces", self.reconcile, called=named("Namespace"), count=4)
        self._namespaces = environment.informers.of(NAMESPACES)
        self._namespaces.add_handler(self._changed)

    def _changed(self, change: Change) -> None:
        if change.type != "DELETED" and _is_ours(change.object) and not _is_repeated(change):
            self._workers.queue.add(change.key[1])

    async def reconcile(self, name: str) -> float | None:
        cached = self._namespaces.cache.get(name)
        if cached is None or not _is_ours(cached):
            return None
        try:
            return await self._end(name)
        except NotFound:
            return None

    async def _end(self, name: str) -> float | None:
        # The cache may lag behind what this controller wrote itself.
        namespace = await self._client.get(NAMESPACES, name)
        if not _is_ours(namespace):
            return None
        found = await discover(self._client)
        report = await self._empty(name, found)
        if report.is_empty:
            await self._finalize(namespace)
            return None
        await self._tell(namespace, report)
        return self._patience(namespace)

    async def _empty(self, name: str, found: Discovered) -> Report:
        """Pods go before everything that they may rely on until they have ended."""
        report = Report(undiscovered=[f"{group}: {why}" for group, why in sorted(found.failed.items())])
        resources = [each for each in found.preferred if each.namespaced and each.verbs >= _NEEDED]
        pods = [each for each in resources if (each.group, each.plural) == _PODS]
        await empty(self._client, pods, name, report)
        if not (report.remaining or report.failures):
            await empty(self._client, [each for each in resources if each not in pods], name, report)
        return report

    async def _finalize(self, namespace: Object) -> None:
        spec = spec_of(namespace)
        left = [each for each in spec.get("finalizers") or () if each != FINALIZER]
        body = {**namespace, "spec": {**spec, "finalizers": left}}
        await self._client.update(NAMESPACES, body, subresource="finalize")

    async def _tell(self, namespace: Object, report: Report) -> None:
        status = status_of(namespace)
        conditions = updated(status.get("conditions") or [], report, timestamp(self._time.now()))
        if conditions is None and status.get("phase") == "Terminating":
            return
        new = {**status, "phase": "Terminating", "conditions": conditions or status.get("conditions") or []}
        await self._client.update_status(NAMESPACES, {**namespace, "status": new})

    def _patience(self, namespace: Object) -> float:
        """The longer it takes already, the longer until the next look."""
        since = moment(namespace["metadata"]["deletionTimestamp"])
        return min(max((self._time.now() - since).total_seconds() / 4, _SHORTEST), _LONGEST)


def _is_ours(namespace: Object) -> bool:
    """It is being deleted, and waits for what this controller does."""
    return is_deleting(namespace) and FINALIZER in (spec_of(namespace).get("finalizers") or ())


def _is_repeated(change: Change) -> bool:
    """Only the status changed, as by this controller: it looks again by itself."""
    before = change.previous
    return before is not None and _is_ours(before) and before.get("spec") == change.object.get("spec")
