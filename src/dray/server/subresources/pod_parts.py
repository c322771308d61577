"""`pods/ephemeralcontainers` and `pods/resize`: the two changes to a running pod's containers that are allowed.

Both take a whole pod and use one part of it: the ephemeral containers, to which some may be added, or the resources of
the containers, which may be set anew.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from dray.api import errors, intake, schema
from dray.api.errors import FieldError
from dray.api.intake import Refusal
from dray.api.objects import Object
from dray.api.pod_defaults import qos_class
from dray.api.validation import pods
from dray.server import bodies, patching, status, updates, verbs
from dray.server.admission import UPDATE, limit_ranges, pod_security, queues, quota, unix_accounts, validate
from dray.server.admission.dynamic import mutating
from dray.server.calls import Call, Write
from dray.server.parameters import WriteOptions, write_options
from dray.server.requests import Answer, Response
from dray.server.resources import BuiltIn

Take = Callable[[Object, Object], list[FieldError]]


async def update(call: Call) -> Answer:
    options = write_options(call.request, call.query, "UpdateOptions")
    body = await bodies.read(call.context, call.request, strict=options.strict)
    return await _write(call, lambda document: body, options)


async def patch(call: Call) -> Answer:
    options = write_options(call.request, call.query, "PatchOptions")
    return await _write(call, patching.change_of(call), options)


async def _write(call: Call, make: Callable[[Object], Any], options: WriteOptions) -> Answer:
    take, write = _TAKE[call.path.subresource], call.write(options)
    if mutating.concerns(write, UPDATE):
        make = await _mutated(write, await call.stored(), make)

    def change(pod: Object) -> None:
        document = make(call.resource.answer(pod))
        if isinstance(document, dict):
            updates.check_preconditions(call.resource, call.place, document, pod)
        wanted = _decoded(call, document)
        before = pod["spec"]
        pod["spec"] = deepcopy(before)
        problems = take(pod["spec"], wanted["spec"])
        problems += pods.validate_spec(pod["spec"], "spec")
        if problems:
            raise status.invalid("Pod", "", call.path.name, problems)
        if pod["spec"] != before:
            pod["metadata"]["generation"] = pod["metadata"].get("generation", 0) + 1

    async def admit(old: Object, pod: Object) -> None:
        if pod["spec"] != old["spec"]:
            attributes = write.attributes(UPDATE, pod, old)
            unix_accounts.apply(attributes)
            queues.check_resize(attributes)
            limit_ranges.limit_pod(attributes)
            pod_security.check_pod(attributes)
            quota.charge(attributes)
            await validate(attributes)

    form, size = call.form, len(call.request.body)
    value = await updates.modify(
        call.context, call.resource, call.place, change, dry_run=options.dry_run, size=size, admit=admit
    )
    return Response(200, await verbs.shown(call, value, form))


async def _mutated(write: Write, pod: Object, make: Callable[[Object], Any]) -> Callable[[Object], Any]:
    """Returns a function that gives the mutated pod; raises a conflict if the pod changes meanwhile."""
    sent = make(write.resource.answer(pod))
    mutated = await mutating.mutate(write, UPDATE, sent, pod) if isinstance(sent, dict) else sent
    return lambda document: mutated


def _decoded(call: Call, document: Any) -> Object:
    resource = call.resource
    assert isinstance(resource, BuiltIn)
    if not isinstance(document, dict):
        raise status.bad_request("the body is not a pod")
    decoded = intake.decode(document, resource.target, now=call.context.now(), gates=call.context.gates)
    if isinstance(decoded, Refusal):
        raise status.refused(decoded, "Pod", "", call.path.name)
    return schema.write(decoded, resource.schema)


def _take_ephemeral(spec: Object, wanted: Object) -> list[FieldError]:
    present, given = spec.get("ephemeralContainers") or [], wanted.get("ephemeralContainers") or []
    names = {container.get("name") for member in _CONTAINERS for container in spec.get(member) or []}
    path = "spec.ephemeralContainers"
    if given[: len(present)] != present:
        return [errors.forbidden(path, "existing ephemeral containers may not be changed or removed")]
    problems = []
    for index, container in enumerate(given[len(present) :], len(present)):
        if not container.get("name"):
            problems.append(errors.required(f"{path}[{index}].name"))
        elif container["name"] in names:
            problems.append(errors.duplicate(f"{path}[{index}].name", container["name"]))
        target = container.get("targetContainerName")
        if target and target not in {container.get("name") for container in spec.get("containers") or []}:
            problems.append(errors.not_found(f"{path}[{index}].targetContainerName", target))
        names.add(container.get("name"))
    if given:
        spec["ephemeralContainers"] = given
    return problems


def _take_resources(spec: Object, wanted: Object) -> list[FieldError]:
    before = qos_class(spec)
    for member in ("initContainers", "containers"):
        resources = {container.get("name"): container["resources"] for container in wanted.get(member) or []}
        for index, container in enumerate(spec.get(member) or []):
            given = resources.get(container["name"], container["resources"])
            if given.get("claims") != container["resources"].get("claims"):
                return [errors.forbidden(f"spec.{member}[{index}].resources.claims", "claims may not be changed")]
            if _fixed(given) != _fixed(container["resources"]):
                return [errors.forbidden("spec", "only cpu and memory resources are mutable")]
            container["resources"] = given
    if qos_class(spec) != before:
        return [errors.invalid("spec", before, "Pod QOS Class may not change as a result of resizing")]
    return []


def _fixed(resources: Object) -> list[tuple[str, str, str]]:
    """Returns the amounts that a resize must not change."""
    return sorted(
        (member, name, amount)
        for member in ("requests", "limits")
        for name, amount in (resources.get(member) or {}).items()
        if name not in _RESIZABLE
    )


_RESIZABLE = ("cpu", "memory")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_TAKE: dict[str, Take] = {"ephemeralcontainers": _take_ephemeral, "resize": _take_resources}
