"""`namespaces/finalize`: the one way to change the finalizers in a namespace's spec."""

from __future__ import annotations

from dray.api.objects import Object, mapping, sequence
from dray.server import bodies, representations, status, updates
from dray.server.admission import UPDATE, validate
from dray.server.admission.dynamic import mutating
from dray.server.calls import Call
from dray.server.parameters import write_options
from dray.server.requests import Answer, Response


async def update(call: Call) -> Answer:
    options = write_options(call.request, call.query, "UpdateOptions")
    body = await bodies.read(call.context, call.request, strict=options.strict)
    write = call.write(options)
    if mutating.concerns(write, UPDATE):
        body = await mutating.mutate(write, UPDATE, body, await call.stored())
    finalizers = sequence(mapping(body.get("spec")).get("finalizers"))
    if not all(isinstance(finalizer, str) for finalizer in finalizers):
        raise status.bad_request("spec.finalizers must be a list of texts")
    given = mapping(body.get("metadata")).get("resourceVersion")

    def change(namespace: Object) -> None:
        if given and given != namespace["metadata"]["resourceVersion"]:
            raise status.conflict("", "namespaces", call.path.name, status.MODIFIED)
        if finalizers:
            namespace["spec"]["finalizers"] = finalizers
        else:
            namespace["spec"].pop("finalizers", None)

    async def admit(old: Object, namespace: Object) -> None:
        await validate(write.attributes(UPDATE, namespace, old))

    value = await updates.modify(call.context, call.resource, call.place, change, dry_run=options.dry_run, admit=admit)
    return Response(200, representations.one(call.resource, value, call.form, call.context.now(), call.include))
