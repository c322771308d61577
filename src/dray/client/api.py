"""The client: the verbs of the Kubernetes API on objects as they are, dicts decoded from JSON, on whatever transport.

Nothing is typed, defaulted or dropped on the way. A refusal of the server is an `ApiError`; no answer is one of the
other `ClientError`s, after the retries that are safe. Objects name their own place by `metadata`; where there is no
object, `namespace` and `name` do, and an empty namespace is that of the whole cluster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final

import msgspec

from dray.api.objects import Object, key_of, uid_of
from dray.client import interface
from dray.client.errors import ApiError, Garbled
from dray.client.interface import (
    DELETE,
    EVERYTHING,
    JSON,
    WRITE,
    DeleteOptions,
    PatchType,
    Resource,
    Selection,
    WatchEvent,
    WriteOptions,
)
from dray.client.retries import Retries, retry_after
from dray.client.transport import Answer, Request, Transport
from dray.client.watching import Watching

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class ApiClient:
    def __init__(self, transport: Transport, *, retries: Retries | None = None) -> None:
        self._transport = transport
        self._retries = retries or Retries()

    @property
    def transport(self) -> Transport:
        return self._transport

    async def get(self, resource: Resource, name: str, *, namespace: str = "", subresource: str = "") -> Object:
        return await self._call("GET", interface.item(resource, namespace, name, subresource))

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        exact: bool = False,
    ) -> Object:
        """Returns one page of a list; with `exact` of exactly that resource version, not a newer one."""
        query = _selecting(selection)
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        elif resource_version:
            query["resourceVersion"] = resource_version
            if exact:
                query["resourceVersionMatch"] = "Exact"
        return await self._call("GET", interface.collection(resource, namespace), query)

    async def list_all(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        limit: int = 500,
        at: str = "",
    ) -> Object:
        """Returns all pages as one list; `limit` is the size of a page, `at` the required resource version."""
        first = await self.list(
            resource, namespace=namespace, selection=selection, limit=limit, resource_version=at, exact=bool(at)
        )
        items, page = list(_items(first)), first
        while token := page.get("metadata", {}).get("continue"):
            try:
                page = await self.list(
                    resource, namespace=namespace, selection=selection, limit=limit, continue_token=token
                )
            except ApiError as error:
                if not error.is_gone:
                    raise
                # The pages took so long that the list is no longer kept: take it whole.
                return await self.list(resource, namespace=namespace, selection=selection)
            items += _items(page)
        metadata = {**first.get("metadata", {}), **page.get("metadata", {})}
        for name in ("continue", "remainingItemCount"):
            metadata.pop(name, None)
        return {**first, "metadata": metadata, "items": items}

    async def watch(
        self, resource: Resource, *, namespace: str = "", selection: Selection = EVERYTHING, resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yields events after a resource version, including bookmarks, without end.

        Broken and timed-out connections are resumed where they ended. Raises ApiError if that is impossible: `is_gone`
        and `is_ahead` mean to list again. Without a resource version it starts with the existing objects.
        """
        path = interface.collection(resource, namespace)
        watching = Watching(self._transport, self._retries, path, _selecting(selection), resource_version)
        async with aclosing(watching.events()) as events:
            async for event in events:
                yield event

    async def create(
        self,
        resource: Resource,
        body: Object,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Object:
        """Creates an object; `name` and `subresource` are for subresources: a binding, an eviction, a token."""
        namespace = namespace or key_of(body)[0]
        path = (
            interface.item(resource, namespace, name, subresource)
            if name
            else interface.collection(resource, namespace)
        )
        return await self._call("POST", path, _writing(options), body)

    async def update(
        self, resource: Resource, body: Object, *, subresource: str = "", options: WriteOptions = WRITE
    ) -> Object:
        path = interface.item(resource, *key_of(body), subresource)
        return await self._call("PUT", path, _writing(options), body)

    async def update_status(self, resource: Resource, body: Object, *, options: WriteOptions = WRITE) -> Object:
        return await self.update(resource, body, subresource="status", options=options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Any,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Object:
        path = interface.item(resource, namespace, name, subresource)
        return await self._call("PATCH", path, _writing(options), body, content_type=patch_type.value)

    async def patch_status(
        self, resource: Resource, obj: Object, status: Mapping[str, Any], *, pinned: bool = False
    ) -> Object:
        """Merges into the status of this object, not of a later one of its name; `pinned`: only at this version."""
        (namespace, name), metadata = key_of(obj), {"uid": uid_of(obj)}
        if pinned:
            metadata["resourceVersion"] = obj["metadata"]["resourceVersion"]
        body = {"metadata": metadata, "status": status}
        return await self.patch(
            resource, name, body, namespace=namespace, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "", options: WriteOptions) -> Object:
        """Applies a configuration by server-side apply; the options must name a field manager."""
        namespace, name = key_of(body)
        return await self.patch(
            resource,
            name,
            body,
            namespace=namespace,
            patch_type=PatchType.APPLY,
            subresource=subresource,
            options=options,
        )

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", options: DeleteOptions = DELETE
    ) -> Object:
        """Deletes an object. Returns the object if it is still being deleted, else a Status."""
        return await self._call("DELETE", interface.item(resource, namespace, name), None, _deleting(options))

    async def delete_object(
        self,
        resource: Resource,
        obj: Object,
        *,
        pinned: bool = False,
        grace_period: int | None = None,
        propagation: str = "",
    ) -> Object:
        """Deletes this object, not a later one of the same name; `pinned`: only at this version."""
        (namespace, name), version = key_of(obj), obj["metadata"]["resourceVersion"] if pinned else ""
        options = DeleteOptions(
            uid=uid_of(obj), resource_version=version, grace_period=grace_period, propagation=propagation
        )
        return await self.delete(resource, name, namespace=namespace, options=options)

    async def delete_collection(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        options: DeleteOptions = DELETE,
    ) -> Object:
        path = interface.collection(resource, namespace)
        return await self._call("DELETE", path, _selecting(selection), _deleting(options))

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None, accept: str = JSON
    ) -> Object:
        """Sends any other JSON request: discovery, version, reviews. `accept` is the Accept header."""
        return await self._call(method, path, query, body, accept=accept)

    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncGenerator[bytes, None]:
        """Yields the pieces of any streamed answer, such as logs."""
        stream = await self._transport.stream(Request("GET", path, query or {}))
        try:
            if stream.status >= 400:
                raise ApiError.from_answer(stream.status, b"".join([chunk async for chunk in stream]))
            async for chunk in stream:
                yield chunk
        finally:
            await stream.close()

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> ApiClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Object:
        if body is None:
            request = Request(method, path, query or {}, {"accept": accept})
        else:
            headers = {"accept": accept, "content-type": content_type}
            request = Request(method, path, query or {}, headers, _encode(body))
        return _document(await self._retries.send(self._transport.send, request))


def _document(answer: Answer) -> Object:
    if answer.status >= 300:
        raise ApiError.from_answer(answer.status, answer.body, retry_after(answer.headers.get("retry-after", "")))
    try:
        return _decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Garbled(f"the answer is not an object in JSON: {answer.body[:200]!r}") from error


def _items(page: Object) -> list[Any]:
    items = page.get("items")
    if not isinstance(items, list | None) or not isinstance(page.get("metadata", {}), dict):
        raise Garbled(f"the answer is not a list of objects: {_encode(page)[:200]!r}")
    return items or []


def _selecting(selection: Selection) -> dict[str, str]:
    query = {"labelSelector": selection.labels, "fieldSelector": selection.fields}
    return {name: value for name, value in query.items() if value}


def _writing(options: WriteOptions) -> dict[str, str]:
    if options is WRITE:
        return {}
    query = {
        "fieldManager": options.field_manager,
        "fieldValidation": options.field_validation,
        "dryRun": "All" if options.dry_run else "",
        "force": "true" if options.force else "",
    }
    return {name: value for name, value in query.items() if value}


def _deleting(options: DeleteOptions) -> Object | None:
    if options is DELETE:
        return None
    body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    if any(preconditions.values()):
        body["preconditions"] = {name: value for name, value in preconditions.items() if value}
    if options.grace_period is not None:
        body["gracePeriodSeconds"] = options.grace_period
    if options.propagation:
        body["propagationPolicy"] = options.propagation
    if options.dry_run:
        body["dryRun"] = ["All"]
    return body
