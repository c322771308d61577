"""The DRA parts of a pod's status."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.devices import is_node_resource
from dray.api.validation.fields import Errors

MAX_HEALTH_MESSAGE = 1024


def validate(pod: Object, old: Object, rules: Rules) -> Errors:
    spec, status = pod["spec"], pod["status"]
    yield from _claim_statuses(status.get("resourceClaimStatuses") or [], spec)
    extended = status.get("extendedResourceClaimStatus")
    if extended is not None:
        yield from _extended(extended, spec)
    yield from _node_allocatable(status.get("nodeAllocatableResourceClaimStatuses") or [], pod)
    for member, containers in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
    ):
        for index, entry in enumerate(status.get(member) or []):
            path = f"status.{member}[{index}].allocatedResourcesStatus"
            yield from _health(entry, path, spec.get(containers) or [], extended or {})


def _claim_statuses(entries: list[Object], spec: Object) -> Errors:
    known = {claim["name"] for claim in spec.get("resourceClaims") or []}
    seen = set()
    for index, entry in enumerate(entries):
        path = f"status.resourceClaimStatuses[{index}]"
        name = entry["name"]
        if name not in known:
            yield errors.invalid(f"{path}.name", name, "must match the name of an entry in spec.resourceClaims")
        elif name in seen:
            yield errors.duplicate(f"{path}.name", name)
        seen.add(name)
        if entry.get("resourceClaimName") is not None:
            yield from fields.subdomain(entry["resourceClaimName"], f"{path}.resourceClaimName")


def _extended(status: Object, spec: Object) -> Errors:
    path = "status.extendedResourceClaimStatus"
    containers = {c["name"]: c for c in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]}
    mappings = status["requestMappings"] or []
    if not mappings:
        yield errors.required(f"{path}.requestMappings", "at least one request mapping is required")
    seen = set()
    for index, mapped in enumerate(mappings):
        at = f"{path}.requestMappings[{index}]"
        key = (mapped["containerName"], mapped["resourceName"], mapped["requestName"])
        if key in seen:
            for member, value in zip(("containerName", "resourceName", "requestName"), key, strict=True):
                yield errors.duplicate(f"{at}.{member}", value)
        seen.add(key)
        container = containers.get(key[0])
        if container is None:
            yield errors.invalid(f"{at}.containerName", key[0], "must be the name of a container of the pod")
        elif key[1] not in mapping(container["resources"].get("requests")):
            yield errors.invalid(f"{at}.resourceName", key[1], "must be a resource that the container requests")
        yield from fields.label(key[2], f"{path}.requestName")
    if not status["resourceClaimName"]:
        yield errors.required(f"{path}.resourceClaimName")
    else:
        yield from fields.subdomain(status["resourceClaimName"], f"{path}.resourceClaimName")


def _node_allocatable(entries: list[Object], pod: Object) -> Errors:
    used = _claim_names(pod)
    for index, entry in enumerate(entries):
        path = f"status.nodeAllocatableResourceClaimStatuses[{index}]"
        if entry["resourceClaimName"] not in used:
            yield errors.invalid(
                f"{path}.resourceClaimName", entry["resourceClaimName"], "must be a claim that the pod uses"
            )
        for position, mapped in enumerate(entry.get("mapping") or []):
            yield from _amounts(mapped, f"{path}.mapping[{position}]", ("quantity",))
        for position, overhead in enumerate(entry.get("overhead") or []):
            at = f"{path}.overhead[{position}]"
            if overhead.get("perPod") is None and overhead.get("perContainer") is None:
                yield errors.invalid(at, overhead, "at least one of `perPod` or `perContainer` is required")
            yield from _amounts(overhead, at, ("perPod", "perContainer"))


def _amounts(entry: Object, path: str, members: tuple[str, ...]) -> Errors:
    if not is_node_resource(entry["name"]):
        yield errors.invalid(f"{path}.name", entry["name"], "must be cpu, memory or hugepages-<size>")
    for member in members:
        if entry.get(member) is not None and Quantity.parse(entry[member]).sign() < 0:
            yield errors.invalid(f"{path}.{member}", entry[member], "must not be negative")


def _claim_names(pod: Object) -> set[str]:
    """The ResourceClaims behind the pod: named, made from templates, or made for extended resources."""
    status = pod["status"]
    found = {claim.get("resourceClaimName") for claim in pod["spec"].get("resourceClaims") or []}
    found |= {entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or []}
    found.add(mapping(status.get("extendedResourceClaimStatus")).get("resourceClaimName"))
    return {name for name in found if name}


def _health(entry: Object, path: str, containers: list[Object], extended: Object) -> Errors:
    container = next((c for c in containers if c["name"] == entry["name"]), None)
    known = set()
    for claim in (container or {"resources": {}})["resources"].get("claims") or []:
        known.add(f"claim:{claim['name']}" + (f"/{claim['request']}" if claim.get("request") else ""))
    for mapped in extended.get("requestMappings") or []:
        known.add(f"claim:{extended['resourceClaimName']}/{mapped['requestName']}")
    for index, resource in enumerate(entry.get("allocatedResourcesStatus") or []):
        at = f"{path}[{index}]"
        if resource["name"].startswith("claim:") and resource["name"] not in known:
            yield errors.invalid(f"{at}.name", resource["name"], "must match one of the container's resource claims")
        for position, health in enumerate(resource.get("resources") or []):
            if len((health.get("message") or "").encode()) > MAX_HEALTH_MESSAGE:
                yield errors.too_long(f"{at}.resources[{position}].message", MAX_HEALTH_MESSAGE)
