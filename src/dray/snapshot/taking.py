"""Takes a snapshot of a live cluster: the lists that the scheduler and explanations read, with allowed fields only.

All lists have the same resource version if the API server still has it: the first list gives the version, and others
are requested at exactly this version. If the server no longer has it, its newest list is used, and the header says so.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object
from dray.client.api import ApiClient
from dray.client.discovery import ServedResource, discover
from dray.client.errors import ApiError
from dray.client.interface import Resource
from dray.process.memory import loading
from dray.scheduling_loop.kind_owners import WEBHOOKS
from dray.snapshot.fields import is_kept_event, kept
from dray.snapshot.files import Header, ListedKind, Refusal, Snapshot
from dray.snapshot.listing import Listed, wanted_kinds

_Name = tuple[str, str, str]
"""API group, version and plural of a resource."""
_PODS: Final[_Name] = ("", "v1", "pods")
_EVENTS: Final[_Name] = ("", "v1", "events")
_BESIDE: Final[tuple[_Name, ...]] = (
    (WEBHOOKS.group, WEBHOOKS.version, WEBHOOKS.plural),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "replicasets"),
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "daemonsets"),
    ("batch", "v1", "jobs"),
    ("batch", "v1", "cronjobs"),
    ("scheduling.k8s.io", "v1", "priorityclasses"),
    _EVENTS,
)
"""Kinds that only explanations and plans read."""
# The server answers with these codes if the resource version is gone, or unknown to the store of this kind.
_NOT_THERE: Final = (400, 410, 422, 500, 504)


async def take(client: ApiClient, taken_at: float, namespace: str) -> Snapshot:
    """Takes a snapshot. The header notes kinds that may not be read. Raises ClientError."""
    with loading():
        return await _take(client, taken_at, namespace)


async def _take(client: ApiClient, taken_at: float, namespace: str) -> Snapshot:
    kinds: list[ListedKind] = []
    objects: dict[tuple[str, str], list[Object]] = {}
    consistent, at = True, ""
    for resource in await _resources(client):
        name = _name(resource)
        try:
            # A server may keep events in a separate store with other resource versions.
            wanted = "" if name == _EVENTS else at
            listed, exact = await _list(client, resource, wanted)
        except ApiError as error:
            if not error.is_forbidden:
                raise
            kinds.append(_kind(resource, refusal=Refusal(error.status, error.reason, error.message)))
            continue
        version = str((listed.get("metadata") or {}).get("resourceVersion") or "")
        at = at or version
        consistent = consistent and exact
        found = [kept(resource.kind, obj) for obj in listed.get("items") or () if _is_kept(name, obj)]
        kinds.append(_kind(resource, objects=len(found), resource_version=version))
        objects[resource.api_version, resource.kind] = found
    header = Header(taken_at=taken_at, namespace=namespace, kinds=tuple(kinds), consistent=consistent)
    return Snapshot(header, objects)


async def _resources(client: ApiClient) -> list[ServedResource]:
    """Returns the resources to list; pods come first."""
    served = {_name(resource): resource for resource in (await discover(client)).resources}
    wanted = (await wanted_kinds(client, Listed(), with_left=True)).values()
    names = [_PODS, *map(_name, wanted), *_BESIDE]
    return [served[name] for name in dict.fromkeys(names) if name in served]


def _name(resource: Resource) -> _Name:
    return resource.group, resource.version, resource.plural


async def _list(client: ApiClient, resource: ServedResource, at: str) -> tuple[Object, bool]:
    """Returns the list, and True if it has the wanted resource version."""
    try:
        return await client.list_all(resource, at=at), True
    except ApiError as error:
        if not at or error.status not in _NOT_THERE:
            raise
    return await client.list_all(resource), False


def _is_kept(name: _Name, obj: Object) -> bool:
    return name != _EVENTS or is_kept_event(obj)


def _kind(
    resource: ServedResource, *, objects: int = 0, resource_version: str = "", refusal: Refusal | None = None
) -> ListedKind:
    return ListedKind(
        resource.group,
        resource.version,
        resource.plural,
        resource.kind,
        resource.namespaced,
        objects,
        resource_version,
        refusal,
    )
