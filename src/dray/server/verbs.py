"""The verbs on a resource: get, list, watch, create, update, patch, delete, deletecollection."""

from __future__ import annotations

import asyncio

from dray.api.intake import Place
from dray.api.objects import Object
from dray.server import (
    answer_forms,
    bodies,
    creation,
    deletion,
    documents,
    negotiation,
    patching,
    reads,
    representations,
    status,
    updates,
    watches,
)
from dray.server.calls import Call
from dray.server.deletion import DeleteOptions
from dray.server.negotiation import Form
from dray.server.parameters import write_options
from dray.server.requests import Answer, Response, Stream, document
from dray.server.selection import select

_DELETED_AT_ONCE = 16
# Kinds that an update may create, because their clients write without reading first.
_CREATED_ON_UPDATE = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "Event", "Lease", "LeaseCandidate", "Role", "RoleBinding"}
)


async def shown(call: Call, value: bytes, form: Form) -> bytes:
    """Returns a stored document in the form that the client wants."""
    if call.resource.converts:
        value = (await call.resource.seen([value]))[0]
    if form is Form.OBJECT:
        return await call.context.worker.run(len(value), call.resource.present, value)
    now, include = call.context.now(), call.include
    return await call.context.worker.run(len(value), representations.one, call.resource, value, form, now, include)


async def get(call: Call) -> Answer:
    form = call.form
    return Response(200, await shown(call, reads.get(call.context, call.resource, call.place).value, form))


async def list_all(call: Call) -> Answer:
    form = call.form
    return Response.of(await reads.list_objects(call.context, call.resource, call.path.namespace, call.query, form))


async def watch(call: Call) -> Answer:
    query = call.query
    if call.path.name:
        query = {**query, "fieldSelector": f"metadata.name={call.path.name}"}
    accepted = call.accepted
    negotiation.check_stream(accepted.media)
    lines = watches.watch(call.context, call.resource, call.path.namespace, query, accepted.form)
    if accepted.media == negotiation.PROTOBUF:
        return Stream(answer_forms.events(lines), negotiation.PROTOBUF_WATCH)
    return Stream(lines)


async def create(call: Call) -> Answer:
    options = write_options(call.request, call.query, "CreateOptions")
    form = call.form
    body = await bodies.read_object(call.context, call.request)
    value = await creation.create(call.write(options), body)
    return Response(201, await shown(call, value, form))


async def update(call: Call) -> Answer:
    options = write_options(call.request, call.query, "UpdateOptions")
    form = call.form
    body = await bodies.read_object(call.context, call.request)
    if not call.path.subresource and call.resource.kind in _CREATED_ON_UPDATE and _is_absent(call):
        call.authorize_create()
        return await create(call)
    value = await updates.update(call.write(options), lambda old: body)
    return Response(200, await shown(call, value, form))


def _is_absent(call: Call) -> bool:
    return call.context.store.get(call.resource.key(call.path.namespace, call.path.name)) is None


async def patch(call: Call) -> Answer:
    form = call.form
    value, created = await patching.patch(call)
    return Response(201 if created else 200, await shown(call, value, form))


async def delete(call: Call) -> Answer:
    options = await _delete_options(call)
    form = call.form
    value, gone = await deletion.delete(call.context, call.resource, call.place, options, call.request)
    if gone and not call.resource.returns_deleted:
        return document(deletion.deleted_status(call.resource, value))
    return Response(200, await shown(call, value, form))


async def delete_collection(call: Call) -> Answer:
    options = await _delete_options(call)
    form = call.form
    selection = select(call.query, call.resource.fields, call.resource.read)
    there = call.context.store.list(reads.list_prefix(call.resource, call.path.namespace)).records
    found = await reads.selected(call.context, await reads.converted(call.resource, there), selection)
    deleted: list[bytes] = []
    for start in range(0, len(found), _DELETED_AT_ONCE):
        # A store in memory never waits: let other tasks run here.
        await asyncio.sleep(0)
        # Deleted together, they wait for the disk once.
        some = found[start : start + _DELETED_AT_ONCE]
        values = await asyncio.gather(*(_delete_found(call, record.value, options) for record in some))
        deleted += [value for value in values if value is not None]
    head = {"resourceVersion": str(call.context.store.revision)}
    deleted = list(await call.resource.seen(deleted))
    return Response.of(representations.several(call.resource, deleted, head, form, call.context.now(), call.include))


async def _delete_found(call: Call, value: bytes, options: DeleteOptions) -> bytes | None:
    """Deletes one of several objects; returns None if it is gone already."""
    metadata = documents.metadata(value)
    try:
        place = Place(metadata.namespace, metadata.name)
        deleted, _ = await deletion.delete(call.context, call.resource, place, options, call.request)
    except status.ApiError as error:
        if error.code != 404:
            raise
        return None
    return deleted


async def _delete_options(call: Call) -> DeleteOptions:
    body: Object = {}
    if call.request.body:
        body = deletion.read_options_body(await bodies.read(call.context, call.request))
    return deletion.delete_options(body, call.query)
