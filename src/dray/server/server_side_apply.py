"""Server-side apply: a configuration merged into what is there, or the object it makes where nothing is."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object
from dray.server import bodies, creation, field_validation, status, updates
from dray.server.calls import Call
from dray.server.fieldmanager import server_side, tracking
from dray.server.options import WriteOptions, write_options


async def apply(call: Call) -> tuple[bytes, bool]:
    """The document as it is stored, and whether it was created."""
    options = write_options(call.request, call.query, "PatchOptions")
    if not options.field_manager:
        problem = errors.required("fieldManager", "is required for apply patch")
        raise status.invalid("PatchOptions", "meta.k8s.io", "", [problem])
    applied = await bodies.read_applied(call.context, call.request, strict=options.strict)
    exists = call.context.store.get(call.resource.key(call.path.namespace, call.path.name)) is not None
    if not exists and call.path.subresource:
        raise status.not_found(call.resource.group, call.resource.plural, call.path.name)
    try:
        if not exists:
            call.authorize_create()
        value = await (_update(call, applied, options) if exists else _create(call, applied, options))
    except field_validation.Undecodable as error:
        raise status.bad_request(error.message) from None
    return value, not exists


def _merge(call: Call, live: Object | None, applied: Object, options: WriteOptions) -> Object:
    return server_side.apply(
        live,
        applied,
        options.field_manager,
        kind=call.resource.tracked,
        now=call.context.now(),
        force=bool(options.force),
        subresource=call.path.subresource,
    )


async def _create(call: Call, applied: Object, options: WriteOptions) -> bytes:
    effort = len(call.request.body) * call.resource.effort
    document = await call.context.worker.run(effort, _merge, call, None, applied, options)
    document["metadata"].setdefault("name", call.path.name)
    return await creation.create(call.write(options), document, applied=True)


async def _update(call: Call, applied: Object, options: WriteOptions) -> bytes:
    owners = tracking.Applied()

    def make(old: Object) -> Object:
        return owners.put_aside(_merge(call, call.resource.answer(old), applied, options))

    return await updates.update(call.write(options, "patch"), make, track=owners)
