"""`pods/binding`, and `bindings` of older clients: puts a pod on a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dray.api import names
from dray.api.objects import Object, mapping, text
from dray.api.validation import metadata as metadata_rules
from dray.server import bodies, status, updates
from dray.server.admission import CREATE, parts
from dray.server.calls import Call
from dray.server.parameters import write_options
from dray.server.part_kinds import BINDING
from dray.server.requests import Answer, document

_MERGED: Final = {"annotations": metadata_rules.annotations, "labels": metadata_rules.labels}


async def create_named(call: Call) -> Answer:
    """Creates a binding of the pod that its metadata names."""
    pods = call.context.registry.find("", "v1", "pods")
    assert pods is not None
    binding = mapping(await bodies.read(call.context, call.request))
    name = text(mapping(binding.get("metadata")).get("name"))
    if not name:
        raise status.bad_request("metadata.name: the name of the pod is required")
    path = replace(call.path, plural="pods", name=name, subresource="binding")
    return await create(Call(call.context, call.request, pods, path, call.query))


async def create(call: Call) -> Answer:
    options = write_options(call.request, call.query, "CreateOptions")
    binding = await bodies.read(call.context, call.request, strict=options.strict)
    binding = await parts.admit(call.write(options, "create"), CREATE, binding, BINDING)
    metadata, target = mapping(binding.get("metadata")), mapping(binding.get("target"))
    if text(metadata.get("name")) not in ("", call.path.name):
        raise status.bad_request("name in URL does not match name in Binding object")
    # Annotations and labels of the binding are added to the pod, so they must be valid there.
    problems = [
        problem
        for member, check in _MERGED.items()
        for problem in check(_texts(metadata, member), f"metadata.{member}")
    ]
    if problems:
        raise status.invalid("Binding", "", call.path.name, problems)
    problem = _problem(target)
    if problem:
        # Kubernetes answers these as an unexpected error, not as an invalid object.
        raise status.ApiError(500, "", problem)
    await updates.modify(
        call.context, call.resource, call.place, lambda pod: _bind(call, pod, binding), dry_run=options.dry_run
    )
    return document(status.success(code=201), 201)


def _problem(target: Object) -> str:
    kind, name = target.get("kind") or "", target.get("name") or ""
    if kind not in ("", "Node"):
        return f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
    if not name:
        return "target.name: Required value"
    if not isinstance(name, str) or not names.is_subdomain(name):
        return f'target.name: Invalid value: "{name}": {names.SUBDOMAIN_DETAIL}'
    return ""


def _bind(call: Call, pod: Object, binding: Object) -> None:
    metadata = mapping(binding.get("metadata"))
    _check(call, pod, metadata)
    pod["spec"]["nodeName"] = mapping(binding.get("target"))["name"]
    pod["status"].pop("nominatedNodeName", None)
    for member in _MERGED:
        given = _texts(metadata, member)
        if given:
            pod["metadata"][member] = {**(pod["metadata"].get(member) or {}), **given}
    now = call.context.now()
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    others = [c for c in pod["status"].get("conditions") or [] if c["type"] != "PodScheduled"]
    pod["status"]["conditions"] = [*others, scheduled]


def _texts(metadata: Object, member: str) -> dict[str, str]:
    return {key: value for key, value in mapping(metadata.get(member)).items() if isinstance(value, str)}


def _check(call: Call, pod: Object, metadata: Object) -> None:
    name = call.path.name
    for member, wanted in (("uid", metadata.get("uid")), ("resourceVersion", metadata.get("resourceVersion"))):
        if wanted and wanted != pod["metadata"][member]:
            raise status.conflict("", "pods/binding", name, f"Precondition failed: {member} differs")
    if pod["metadata"].get("deletionTimestamp"):
        raise status.conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise status.conflict("", "pods/binding", name, why)
    if pod["spec"].get("schedulingGates"):
        raise status.conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
