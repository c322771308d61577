"""The client: the verbs of the API as requests, on whatever transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final

import msgspec

from dray.api.objects import Object, metadata_of
from dray.client import paths
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

    async def get(self, resource: Resource, name: str, *, namespace: str = "", subresource: str = "") -> Object:
        return await self._call("GET", paths.item(resource, namespace, name, subresource))

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Object:
        query = _selecting(selection)
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        elif resource_version:
            query["resourceVersion"] = resource_version
        return await self._call("GET", paths.collection(resource, namespace), query)

    async def list_all(
        self, resource: Resource, *, namespace: str = "", selection: Selection = EVERYTHING, limit: int = 500
    ) -> Object:
        first = await self.list(resource, namespace=namespace, selection=selection, limit=limit)
        items, page = list(first.get("items") or ()), first
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
            items += page.get("items") or ()
        metadata = {**first.get("metadata", {}), **page.get("metadata", {})}
        for name in ("continue", "remainingItemCount"):
            metadata.pop(name, None)
        return {**first, "metadata": metadata, "items": items}

    async def watch(
        self, resource: Resource, *, namespace: str = "", selection: Selection = EVERYTHING, resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        path = paths.collection(resource, namespace)
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
        namespace = namespace or _place(body)[0]
        path = paths.item(resource, namespace, name, subresource) if name else paths.collection(resource, namespace)
        return await self._call("POST", path, _writing(options), body)

    async def update(
        self, resource: Resource, body: Object, *, subresource: str = "", options: WriteOptions = WRITE
    ) -> Object:
        path = paths.item(resource, *_place(body), subresource)
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
        path = paths.item(resource, namespace, name, subresource)
        return await self._call("PATCH", path, _writing(options), body, content_type=patch_type.value)

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "", options: WriteOptions) -> Object:
        namespace, name = _place(body)
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
        return await self._call("DELETE", paths.item(resource, namespace, name), None, _deleting(options))

    async def delete_collection(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        options: DeleteOptions = DELETE,
    ) -> Object:
        path = paths.collection(resource, namespace)
        return await self._call("DELETE", path, _selecting(selection), _deleting(options))

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None, accept: str = JSON
    ) -> Object:
        return await self._call(method, path, query, body, accept=accept)

    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncGenerator[bytes, None]:
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


def _place(body: Object) -> tuple[str, str]:
    metadata = metadata_of(body)
    return metadata.get("namespace") or "", metadata.get("name") or ""


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
