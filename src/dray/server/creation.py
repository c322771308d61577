"""Creation of objects: intake, admission, and the write to the store."""

from __future__ import annotations

from dray.api.intake import Accepted, Refusal
from dray.api.objects import Object
from dray.server import admission, field_validation, status
from dray.server.admission import Attributes
from dray.server.admission.dynamic import mutating
from dray.server.calls import Write
from dray.server.fieldmanager import tracking
from dray.store.interface import Exists, StoreError

_LONGEST_BASE = 58
_TRIES = 8


async def create(write: Write, document: Object, *, applied: bool = False) -> bytes:
    """Creates an object. Returns the stored document, or for a dry run the one that would be stored.

    With `applied`, the document has its managedFields already.
    """
    context, resource, place, options = write.context, write.resource, write.place, write.options
    now = context.now()
    rules = context.rules(place.namespace)

    if mutating.concerns(write, admission.CREATE):
        document = await mutating.mutate(write, admission.CREATE, document)

    def attempt(document: Object) -> Accepted | Refusal:
        return resource.create(document, place, rules, now)

    def prepare() -> Accepted | Refusal:
        verdict = field_validation.admit(write, document, attempt)
        if isinstance(verdict, Accepted) and not applied:
            tracking.track_create(resource, verdict.object, verdict.sent or verdict.object, options, now)
        return verdict

    await admission.await_references(context, resource, place.namespace, document)
    verdict = await context.worker.run(resource.work(write.size, document), prepare)
    # From here on nothing waits until the object is written: what is checked still holds then. Only objects that belong
    # to no namespace have checks that wait.
    if not (isinstance(verdict, Refusal) and verdict.code == 400):
        admission.require_namespace(context, resource, place.namespace, field_validation.name_of(document))
    obj = field_validation.accepted(verdict, resource, document).object
    metadata: Object = obj["metadata"]
    if place.name and metadata.get("name") not in (None, "", place.name):
        raise status.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({place.name})"
        )
    if metadata.pop("resourceVersion", None) not in (None, "", "0"):
        raise status.bad_request("resourceVersion should not be set on objects to be created")
    metadata["uid"], metadata["creationTimestamp"] = context.new_uid(), now
    attributes = write.attributes(admission.CREATE, obj)
    await admission.check(attributes)
    admission.admit(attributes)
    await admission.validate(attributes)
    return await _store(attributes)


async def _store(attributes: Attributes) -> bytes:
    context, resource, obj, dry_run = attributes.context, attributes.resource, attributes.obj, attributes.dry_run
    metadata: Object = obj["metadata"]
    generate = "" if metadata.get("name") else metadata.get("generateName", "")
    for attempt in range(_TRIES):
        if generate:
            metadata["name"] = generate[:_LONGEST_BASE] + context.new_suffix()
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        encoder = resource.encoder(await resource.storable(obj))
        if resource.converts:
            admission.recheck(attributes)
        if dry_run:
            if context.store.get(key) is not None:
                raise status.already_exists(resource.group, resource.plural, metadata["name"])
            return encoder(0)
        context.usage.expect(resource, key)
        try:
            record = await context.store.create(key, encoder)
        except Exists:
            if not generate or attempt == _TRIES - 1:
                raise status.already_exists(resource.group, resource.plural, metadata["name"]) from None
            continue
        except StoreError:
            context.usage.expect(resource, key)
            raise
        context.notify(resource, key, obj)
        return record.value
    raise AssertionError("unreachable")
