"""The namespace controller: finishes namespaces that are terminating.

Their contents are deleted, one resource after the other, pods first; conditions tell what remains. When nothing is
left, so is the namespace.

Another one may do the same at the same time, as beside `dray apiserver`: each step is one that may be taken twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from dray.api.objects import Object, finalizers_of, is_deleting, spec_of, status_of
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.clock import moment, timestamp
from dray.client.discovery import Discovered, ServedResource, discover
from dray.client.errors import ApiError, ClientError, NotFound
from dray.client.interface import DeleteOptions
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import NAMESPACES

_AT_ONCE: Final = 8
# Of a kind that was taken away since, or whose objects cannot be listed or deleted together.
_NOT_SERVED: Final = (404, 405)
_BACKGROUND: Final = DeleteOptions(propagation="Background")
FINALIZER: Final = "kubernetes"
_NEEDED: Final = frozenset({"delete", "list"})
_PODS: Final = ("", "pods")
_SHORTEST, _LONGEST = 0.2, 8.0


@dataclass(slots=True)
class Report:
    """Remaining contents of a namespace: `remaining` counts objects by resource, `finalizers` by finalizer."""

    undiscovered: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    remaining: dict[str, int] = field(default_factory=dict)
    finalizers: dict[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the namespace may go."""
        return not (self.undiscovered or self.failures or self.remaining)

    def conditions(self) -> list[Object]:
        """Returns the deletion conditions of the namespace, without transition times."""
        left = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(self.remaining.items()))
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(self.finalizers.items()))
        return [
            _condition(
                "NamespaceDeletionDiscoveryFailure",
                ("DiscoveryFailed", f"Discovery failed for some groups: {'; '.join(self.undiscovered)}"),
                ("ResourcesDiscovered", "All resources successfully discovered"),
                holds=bool(self.undiscovered),
            ),
            _condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                ("GroupVersionParsingFailed", ""),
                ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
                holds=False,
            ),
            _condition(
                "NamespaceDeletionContentFailure",
                ("ContentDeletionFailed", f"Failed to delete all resource types: {'; '.join(self.failures)}"),
                ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
                holds=bool(self.failures),
            ),
            _condition(
                "NamespaceContentRemaining",
                ("SomeResourcesRemain", f"Some resources are remaining: {left}"),
                ("ContentRemoved", "All content successfully removed"),
                holds=bool(self.remaining),
            ),
            _condition(
                "NamespaceFinalizersRemaining",
                ("SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {held}"),
                ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
                holds=bool(self.finalizers),
            ),
        ]


def updated(present: list[Object], report: Report, now: str) -> list[Object] | None:
    """Returns the conditions updated by the report; None if nothing changes."""
    by_type = {condition.get("type"): condition for condition in present}
    said = False
    for condition in report.conditions():
        before = by_type.get(condition["type"])
        if before is not None and all(before.get(member) == value for member, value in condition.items()):
            continue
        said = True
        same = before is not None and before.get("status") == condition["status"]
        since = before.get("lastTransitionTime") if same and before is not None else now
        by_type[condition["type"]] = {**condition, "lastTransitionTime": since or now}
    return list(by_type.values()) if said else None


def _condition(kind: str, bad: tuple[str, str], good: tuple[str, str], *, holds: bool) -> Object:
    reason, message = bad if holds else good
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


async def empty(client: ApiClient, resources: Iterable[ServedResource], namespace: str, report: Report) -> None:
    """Deletes all objects of these resources in a namespace; adds the remaining ones to the report."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(resource: ServedResource) -> None:
        async with turns:
            try:
                left = await _delete(client, resource, namespace)
            except ClientError as error:
                report.failures.append(f"{resource.qualified}: {error}")
                return
        if left:
            report.remaining[f"{resource.plural}.{resource.group}"] = len(left)
        for obj in left:
            for finalizer in finalizers_of(obj):
                report.finalizers[finalizer] = report.finalizers.get(finalizer, 0) + 1

    await asyncio.gather(*(one(resource) for resource in resources))


async def _delete(client: ApiClient, resource: ServedResource, namespace: str) -> list[Object]:
    """Deletes the objects that are not terminating yet. Returns the objects that remain."""
    present = await _list(client, resource, namespace)
    staying = [obj for obj in present if not obj["metadata"].get("deletionTimestamp")]
    if not staying:
        return present
    if not ("deletecollection" in resource.verbs and await _delete_all(client, resource, namespace)):
        for obj in staying:
            await _delete_one(client, resource, obj)
    return await _list(client, resource, namespace)


async def _list(client: ApiClient, resource: ServedResource, namespace: str) -> list[Object]:
    try:
        return list((await client.list_all(resource, namespace=namespace)).get("items") or ())
    except ApiError as error:
        if error.status in _NOT_SERVED:
            return []
        raise


async def _delete_all(client: ApiClient, resource: ServedResource, namespace: str) -> bool:
    """Deletes the collection. Returns False if the server does not support it."""
    try:
        await client.delete_collection(resource, namespace=namespace, options=_BACKGROUND)
    except ApiError as error:
        if error.status in _NOT_SERVED:
            return False
        raise
    return True


async def _delete_one(client: ApiClient, resource: ServedResource, obj: Object) -> None:
    with suppress(NotFound):
        await client.delete_object(resource, obj, propagation="Background")


class NamespaceController(QueueController[str]):
    """Finishes terminating namespaces. Keys are their names."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
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
        """Empties the namespace: pods first, then the objects that they may use until they have ended."""
        report = Report(undiscovered=[f"{group}: {why}" for group, why in sorted(found.failed.items())])
        resources = [resource for resource in found.preferred if resource.namespaced and resource.verbs >= _NEEDED]
        pods = [resource for resource in resources if (resource.group, resource.plural) == _PODS]
        await empty(self._client, pods, name, report)
        if not (report.remaining or report.failures):
            await empty(self._client, [resource for resource in resources if resource not in pods], name, report)
        return report

    async def _finalize(self, namespace: Object) -> None:
        spec = spec_of(namespace)
        left = [finalizer for finalizer in spec.get("finalizers") or () if finalizer != FINALIZER]
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
        """Returns the seconds until the next look; grows with the time that the deletion takes."""
        since = moment(namespace["metadata"]["deletionTimestamp"])
        return min(max((self._time.now() - since).total_seconds() / 4, _SHORTEST), _LONGEST)


def _is_ours(namespace: Object) -> bool:
    """Returns True if the namespace is terminating and still has the finalizer of this controller."""
    return is_deleting(namespace) and FINALIZER in (spec_of(namespace).get("finalizers") or ())


def _is_repeated(change: Change) -> bool:
    """Returns True if only the status changed: this controller wrote it and looks again by itself."""
    before = change.previous
    return before is not None and _is_ours(before) and before.get("spec") == change.object.get("spec")
