"""Updates of objects, by clients and by the server itself, under optimistic concurrency."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

from dray.api.intake import Accepted, Place, Refusal
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.server import admission, documents, field_validation, reads, status
from dray.server.admission.dynamic import mutating
from dray.server.calls import Write
from dray.server.context import Context
from dray.server.custom import conversion
from dray.server.fieldmanager import tracking
from dray.server.part_kinds import PartKind
from dray.server.resources import Resource
from dray.store.interface import Conflict, Missing, Record, StoreError

# Makes the document of a client's update from the present object in hub form, which it must not change.
Make = Callable[[Object], Object]
# Sets metadata.managedFields, given the object before and after.
Track = Callable[[Object, Object], None]

_TRIES = 20
# Bytes that a deletion adds to an object that is terminating.
_MARKS = 4096


class View(Protocol):
    """A subresource that shows a part of the object as another kind, which admission sees."""

    kind: PartKind

    def of(self, obj: Object) -> Object: ...

    def put(self, document: Object, part: Object) -> Object:
        """Returns the document with the values of the part."""
        ...


async def update(write: Write, make: Make, track: Track | None = None, view: View | None = None) -> bytes:
    """Updates an object. Returns the stored document; calls `make` again after a conflicting write."""
    context, resource, place, options = write.context, write.resource, write.place, write.options
    subresource = write.subresource

    def prepare(value: bytes, rules: Rules, now: str, mutated: Object | None) -> tuple[Object, Object]:
        """Returns the object before and after the update."""
        old = resource.read(value)
        document = make(old) if mutated is None else mutated
        check_preconditions(resource, place, document, old)

        def attempt(document: Object) -> Accepted | Refusal:
            # A scale changes the spec of the object.
            return resource.update(document, old, place, rules, now, subresource if subresource != "scale" else "")

        verdict = field_validation.admit(write, document, attempt)
        obj = field_validation.accepted(verdict, resource, {"metadata": {"name": place.name}}).object
        # Copied, because the metadata may be shared with the old object and is changed below.
        obj["metadata"] = dict(obj["metadata"])
        if track is not None:
            track(old, obj)
        else:
            tracking.track_update(resource, old, obj, options, now, subresource)
        return old, obj

    for _ in range(_TRIES):
        record = reads.get(context, resource, place)
        value = (await resource.seen([record.value]))[0] if resource.converts else record.value
        effort = resource.work(write.size + len(value))
        rules = context.rules(place.namespace)
        mutated: Object | None = None
        if mutating.concerns(write, admission.UPDATE):
            before = resource.read(value)
            sent = await conversion.run(context.worker, effort, make, before)
            check_preconditions(resource, place, sent, before)
            mutated = await _mutated(write, sent, before, view)
        now = context.now()
        old, obj = await conversion.run(context.worker, effort, prepare, value, rules, now, mutated)
        attributes = write.attributes(admission.UPDATE, obj, old)
        await admission.check(attributes)
        admission.admit(attributes)
        if view is not None:
            attributes = write.attributes(admission.UPDATE, view.of(obj), view.of(old), view.kind)
        await admission.validate(attributes)
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        obj = tracking.settle_times(old, obj)
        try:
            return await store(context, resource, record, old, obj, dry_run=options.dry_run)
        except Conflict:
            # If the client named a version to replace, the next round refuses the update.
            continue
    raise status.conflict(resource.group, resource.plural, place.name, status.MODIFIED)


async def _mutated(write: Write, sent: Object, before: Object, view: View | None) -> Object:
    if view is None:
        return await mutating.mutate(write, admission.UPDATE, sent, before)
    part = await mutating.mutate(write, admission.UPDATE, view.of(sent), view.of(before), view.kind)
    return view.put(sent, part)


async def modify(
    context: Context,
    resource: Resource,
    place: Place,
    change: Callable[[Object], None],
    *,
    dry_run: bool = False,
    size: int | None = None,
    admit: Callable[[Object, Object], Awaitable[None]] | None = None,
) -> bytes:
    """Changes an object for the server itself, without validation and managed fields.

    `change` may set members of the object and of its parts (`spec.nodeName`), but nothing deeper. With the `size` of
    what a client sent, it may run in a thread, and must use only that and the object; `admit` is called with the object
    before and after, and may refuse it.
    """

    def changed(record: Record) -> tuple[Object, Object]:
        old = resource.read(record.value)
        obj = {name: dict(part) if isinstance(part, dict) else part for name, part in old.items()}
        change(obj)
        return old, obj

    for _ in range(_TRIES):
        record = reads.get(context, resource, place)
        effort = 0 if size is None else size + len(record.value)
        old, obj = await context.worker.run(effort, changed, record)
        if admit is not None:
            await admit(old, obj)
        try:
            return await store(context, resource, record, old, obj, dry_run=dry_run)
        except Conflict:
            continue
    raise status.conflict(resource.group, resource.plural, place.name, status.MODIFIED)


def check_preconditions(resource: Resource, place: Place, document: Object, old: Object) -> None:
    """Raises a conflict if the client named a resourceVersion or uid to replace and the object has another one."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if isinstance(uid, str) and uid and uid != old["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise status.conflict(resource.group, resource.plural, place.name, why)
    if isinstance(version, str) and version not in ("", "0", old["metadata"]["resourceVersion"]):
        raise status.conflict(resource.group, resource.plural, place.name, status.MODIFIED)


async def store(
    context: Context, resource: Resource, record: Record, old: Object, obj: Object, *, dry_run: bool
) -> bytes:
    """Stores a changed object; writes nothing if it is unchanged, deletes it if it is finished."""
    if obj == old and resource.is_current(record.value):
        return record.value
    encoder = resource.encoder(await resource.storable(obj))
    encoder.most = _most(record, old, obj)
    if dry_run:
        return encoder(0)
    context.usage.expect(resource, record.key)
    try:
        if is_finished(obj):
            gone = await context.store.delete(record.key, expect=record.revision, encode=encoder)
            context.notify(resource, record.key, None)
            return gone.value
        frees = "deletionTimestamp" in obj["metadata"]
        stored = await context.store.update(record.key, encoder, expect=record.revision, frees=frees)
    except Missing:
        raise status.not_found(resource.group, resource.plural, obj["metadata"]["name"]) from None
    except StoreError:
        context.usage.expect(resource, record.key)
        raise
    context.notify(resource, record.key, obj)
    return stored.value


def _most(record: Record, old: Object, obj: Object) -> int:
    """Returns the size limit of an object: one that is too large already may shrink, and can always be deleted."""
    if is_finished(obj):
        return sys.maxsize
    most = max(documents.MAX_BYTES, len(record.value))
    begins_to_end = "deletionTimestamp" in obj["metadata"] and "deletionTimestamp" not in old["metadata"]
    return most + _MARKS if begins_to_end else most


def is_finished(obj: Object) -> bool:
    """Returns True if a deleted object has no finalizers and its grace period is over."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if obj.get("kind") == "Namespace" and obj.get("apiVersion") == "v1":
        return not obj["spec"].get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")
