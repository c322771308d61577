"""Deletes the contents of a namespace, one resource after the other, and counts what remains."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from dray.api.objects import Object, finalizers_of
from dray.client.api import ApiClient
from dray.client.discovery import ServedResource
from dray.client.errors import ApiError, ClientError, NotFound
from dray.client.interface import DeleteOptions
from dray.controllers.namespaces.report import Report

_AT_ONCE: Final = 8
# Of a kind that was taken away since, or whose objects cannot be listed or deleted together.
_NOT_SERVED: Final = (404, 405)
_BACKGROUND: Final = DeleteOptions(propagation="Background")


async def empty(client: ApiClient, resources: Iterable[ServedResource], namespace: str, report: Report) -> None:
    """Deletes what there is of these resources, and adds to the report what is left."""
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
    """What is left afterwards. What is on its way out already is not deleted again."""
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
    """False where the server cannot do so after all."""
    try:
        await client.delete_collection(resource, namespace=namespace, options=_BACKGROUND)
    except ApiError as error:
        if error.status in _NOT_SERVED:
            return False
        raise
    return True


async def _delete_one(client: ApiClient, resource: ServedResource, obj: Object) -> None:
    metadata = obj["metadata"]
    options = DeleteOptions(uid=metadata.get("uid") or "", propagation="Background")
    with suppress(NotFound):
        await client.delete(resource, metadata["name"], namespace=metadata["namespace"], options=options)
