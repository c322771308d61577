"""Deleting objects: preconditions, grace periods, finalizers and what becomes of dependents.

An object that something still holds (a finalizer, a grace period) is marked and stays; otherwise it goes at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dray.api import errors
from dray.api.intake import Place
from dray.api.objects import Object, mapping
from dray.server import admission, documents, parameters, reads, status, updates
from dray.server.authorization import ADMIN
from dray.server.context import Context
from dray.server.custom import definitions
from dray.server.requests import Request
from dray.server.resources import Resource
from dray.store.interface import Conflict, Record, StoreError

_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"
_POLICIES = ("Background", "Foreground", "Orphan")
_TRIES = 20
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace: int | None = None
    policy: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


def delete_options(body: Object, query: Mapping[str, str]) -> DeleteOptions:
    """Reads the options from the body; query parameters fill in missing ones."""
    grace = body.get("gracePeriodSeconds", parameters.whole_number(query, "gracePeriodSeconds"))
    policy = body.get("propagationPolicy", query.get("propagationPolicy")) or ""
    orphan = body.get("orphanDependents", parameters.boolean(query, "orphanDependents"))
    dry_run = body.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    preconditions = mapping(body.get("preconditions"))
    problems = []
    if grace is not None and (type(grace) is not int or not -(2**63) <= grace < 2**63):
        raise status.bad_request("gracePeriodSeconds must be a whole number")
    if policy and orphan is not None:
        problems.append(
            errors.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    if policy and policy not in _POLICIES:
        problems.append(errors.not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    if dry_run and dry_run != ["All"]:
        problems.append(errors.not_supported("dryRun", dry_run, ["All"]))
    if problems:
        raise status.invalid("DeleteOptions", "", "", problems)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    if not all(value is None or isinstance(value, str) for value in (uid, version)):
        raise status.bad_request("preconditions must be text")
    return DeleteOptions(grace, policy, uid or "", version or "", bool(dry_run))


async def delete(
    context: Context,
    resource: Resource,
    place: Place,
    options: DeleteOptions,
    request: Request | None = None,
    *,
    admitted: bool = False,
) -> tuple[bytes, bool]:
    """Deletes an object. Returns its last document, and True if it is gone.

    Without a request the server itself deletes. Policies and webhooks are not called for an object that was `admitted`
    before.
    """
    user = request.user if request is not None else ADMIN
    for _ in range(_TRIES):
        record = reads.get(context, resource, place)
        value = (await resource.seen([record.value]))[0]
        obj = resource.read(value)
        _check_preconditions(resource, place.name, obj, options)
        attributes = admission.Attributes(admission.DELETE, context, resource, user, obj, obj, dry_run=options.dry_run)
        if request is not None:
            attributes.warnings, attributes.annotations = request.warnings, request.annotations
        admission.admit(attributes)
        if not admitted:
            await admission.validate(attributes)
        try:
            return await _delete(context, resource, record, resource.read(value), obj, options)
        except Conflict:
            continue
    raise status.conflict(resource.group, resource.plural, place.name, status.MODIFIED)


def _check_preconditions(resource: Resource, name: str, obj: Object, options: DeleteOptions) -> None:
    for what, wanted, given in (
        ("UID", options.uid, obj["metadata"]["uid"]),
        ("ResourceVersion", options.resource_version, obj["metadata"]["resourceVersion"]),
    ):
        if wanted and wanted != given:
            why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {given}"
            raise status.conflict(resource.group, resource.plural, name, why)


async def _delete(
    context: Context, resource: Resource, record: Record, before: Object, obj: Object, options: DeleteOptions
) -> tuple[bytes, bool]:
    if (resource.group, resource.kind) == ("", "Namespace"):
        mark: Callable[[Context, Object, DeleteOptions], None] = _mark_namespace
    elif (resource.group, resource.kind) == ("", "Pod"):
        mark = _mark_pod
    elif (resource.group, resource.kind) == ("apiextensions.k8s.io", "CustomResourceDefinition"):
        mark = _mark_definition
    else:
        mark = _mark
    if (resource.group, resource.kind) == ("", "ReplicationController"):
        options = _keeping_pods(obj, options)
    _settle_dependents(obj, options)
    mark(context, obj, options)
    if not updates.is_finished(obj):
        value = await updates.store(context, resource, record, before, obj, dry_run=options.dry_run)
        return value, False
    if options.dry_run:
        return record.value, True
    # Watchers see the object as it was stored, with the revision of its deletion.
    stored = documents.decode(record.value)
    last = documents.Encoder(stored, stored["kind"], stored["apiVersion"])
    last.most = sys.maxsize
    try:
        gone = await context.store.delete(record.key, expect=record.revision, encode=last)
    except StoreError:
        # A concurrent quota request did not see the object.
        context.usage.expect(resource, record.key)
        raise
    context.notify(resource, record.key, None)
    return record.value if not gone.value else gone.value, True


def _keeping_pods(controller: Object, options: DeleteOptions) -> DeleteOptions:
    """Orphans the pods of a ReplicationController by default, as in Kubernetes."""
    if options.policy or set(_HOLDING) & set(controller["metadata"].get("finalizers") or ()):
        return options
    return replace(options, policy="Orphan")


def _settle_dependents(obj: Object, options: DeleteOptions) -> None:
    """Stores the propagation policy as a finalizer, which the garbage collector carries out."""
    finalizers = [f for f in obj["metadata"].get("finalizers") or [] if not options.policy or f not in _HOLDING]
    if options.policy in _FINALIZER:
        finalizers.append(_FINALIZER[options.policy])
    if finalizers:
        obj["metadata"]["finalizers"] = finalizers
    else:
        obj["metadata"].pop("finalizers", None)


_FINALIZER = {"Orphan": _ORPHAN, "Foreground": _FOREGROUND}
_HOLDING = (_ORPHAN, _FOREGROUND)


def _mark(context: Context, obj: Object, options: DeleteOptions, grace: int = 0) -> None:
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        _shorten(obj, options, grace)
        return
    metadata["deletionTimestamp"] = (context.clock() + timedelta(seconds=grace)).strftime(_TIME)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def _shorten(obj: Object, options: DeleteOptions, grace: int) -> None:
    """Shortens the grace period of an object that is being deleted; it cannot be extended."""
    metadata = obj["metadata"]
    left = metadata.get("deletionGracePeriodSeconds")
    if left is None:
        metadata["deletionGracePeriodSeconds"] = 0
    elif options.grace is not None and grace < left:
        moment = datetime.strptime(metadata["deletionTimestamp"], _TIME) + timedelta(seconds=grace - left)
        metadata["deletionTimestamp"] = moment.strftime(_TIME)
        metadata["deletionGracePeriodSeconds"] = grace


def _mark_pod(context: Context, pod: Object, options: DeleteOptions) -> None:
    grace = options.grace
    if grace is None:
        grace = pod["spec"].get("terminationGracePeriodSeconds") or 0
    if grace < 0:
        grace = 1
    never_ran = not pod["spec"].get("nodeName")
    if never_ran or pod["status"].get("phase") in ("Succeeded", "Failed"):
        grace = 0
    _mark(context, pod, options, min(grace, 2**31))


def _mark_namespace(context: Context, namespace: Object, options: DeleteOptions) -> None:
    """Marks a namespace as terminating; it is deleted once it is empty."""
    namespace["metadata"].setdefault("deletionTimestamp", context.now())
    namespace["status"]["phase"] = "Terminating"


def _mark_definition(context: Context, definition: Object, options: DeleteOptions) -> None:
    if not definition["metadata"].get("deletionTimestamp"):
        definitions.terminate(definition, context.now())
    _mark(context, definition, options)


def deleted_status(resource: Resource, value: bytes) -> Object:
    metadata = documents.decode(value)["metadata"]
    details: Object = {"name": metadata["name"]}
    if resource.group:
        details["group"] = resource.group
    return status.success({**details, "kind": resource.plural, "uid": metadata["uid"]})


def read_options_body(document: Object) -> Object:
    """Returns the members of a DeleteOptions body; refuses other kinds."""
    kind = document.get("kind")
    if kind not in (None, "", "DeleteOptions"):
        raise status.bad_request(f"the body of a deletion is DeleteOptions, not {kind}")
    return document
