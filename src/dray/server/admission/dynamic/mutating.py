"""The mutating part of dynamic admission: policies, then webhooks, may change what a client sent before it is checked.

The object is decoded and defaulted, not validated: what comes out goes the way of any document. Those that ask for it
are called once more if others changed the object after them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.intake import Refusal
from dray.api.objects import Object
from dray.server.admission.dynamic import mutations
from dray.server.admission.dynamic.matching import Target
from dray.server.admission.dynamic.mutations import MutatingPolicy, MutationError
from dray.server.admission.dynamic.registry import DynamicAdmission
from dray.server.admission.dynamic.request import AdmissionRequest
from dray.server.admission.dynamic.validating import effort
from dray.server.admission.dynamic.webhooks import Webhook
from dray.server.calls import Write
from dray.server.part_kinds import PartKind
from dray.server.patches.json_patch import json_patch
from dray.server.status import ApiError

Mutator = MutatingPolicy | Webhook


def concerns(write: Write, operation: str) -> bool:
    """Returns True if a mutating policy or webhook matches the write."""
    dynamic = write.context.dynamic
    return dynamic is not None and bool(dynamic.concerned(write.resource, write.subresource, operation).mutators)


async def mutate(
    write: Write, operation: str, document: Object, old: Object | None = None, part: PartKind | None = None
) -> Object:
    """Returns the document after all mutations; the same object if nothing changed it."""
    context, resource, dynamic = write.context, write.resource, write.context.dynamic
    assert dynamic is not None
    shape = part or resource
    decoded = shape.decode(document, context.now(), context.gates)
    if isinstance(decoded, Refusal):
        # Intake refuses it later, with a complete message.
        return document
    if part is None and resource.namespaced:
        decoded["metadata"].setdefault("namespace", write.place.namespace)
    if part is None and write.place.name:
        decoded["metadata"].setdefault("name", write.place.name)
    place = (resource.group, resource.version, resource.plural, write.subresource, operation)
    attributes = write.attributes(operation, decoded, old, part)
    request = AdmissionRequest(attributes, Target(*place, resource.namespaced))
    changed = await _run(dynamic, request)
    return shape.answer(request.object) if changed and request.object is not None else document


async def _run(dynamic: DynamicAdmission, request: AdmissionRequest) -> bool:
    mutators = dynamic.concerned(request.attributes.resource, request.target.subresource, request.target.operation)
    changes, left = 0, list[int]()
    for mutator, version in mutators.mutators:
        changes += await _apply(dynamic, mutator, version, request)
        left.append(changes)
    total = changes
    for (mutator, version), then in zip(mutators.mutators, left, strict=True):
        if mutator.again and then < total:
            changes += await _apply(dynamic, mutator, version, request)
    return changes > 0


async def _apply(dynamic: DynamicAdmission, mutator: Mutator, version: str, request: AdmissionRequest) -> bool:
    """Applies a mutator. Returns True if it changed the object."""
    shape, worker, now = request.shape(version), request.context.worker, request.context.now()
    gates = request.context.gates
    await request.prepare(version)
    if isinstance(mutator, Webhook):
        if not mutator.concerns(request, version):
            return False
        patch = await mutator.ask(request, version, request.context.webhooks, dynamic.metrics)
        if patch is None:
            return False
        before = request.shown(request.object, version) or {}
        document: Object | None = await worker.run(len(msgspec.json.encode(patch)), _patched, mutator, before, patch)
    else:
        plan = await mutations.plan(mutator, request, version)
        if not plan:
            return False
        try:
            document = await worker.run(effort(mutator.loops, request), mutator.mutated, plan, shape, now, gates)
        except MutationError as error:
            raise request.attributes.forbid(str(error)) from None
    if document is None or document == request.shown(request.object, version):
        return False
    decoded = shape.decode(document, now, gates)
    if isinstance(decoded, Refusal):
        why = f"{mutator.name} made an object that cannot be read: {decoded.message}"
        raise ApiError(500, "InternalError", f"Internal error occurred: {why}")
    await request.replace(decoded, version)
    return True


def _patched(webhook: Webhook, document: Object, patch: Any) -> Object:
    try:
        patched = json_patch(document, patch)
    except ApiError as error:
        text = f'Internal error occurred: admission webhook "{webhook.name}" patch: {error.message}'
        raise ApiError(500, "InternalError", text) from None
    if not isinstance(patched, dict):
        raise ApiError(500, "InternalError", f'Internal error occurred: webhook "{webhook.name}" left no object')
    return patched
