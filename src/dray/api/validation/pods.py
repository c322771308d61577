"""Pod: the claim fields in full, and of the rest what decides where a pod may be placed and whether it can run."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, annotations_of, labels_of, mapping
from dray.api.pod_requests import effective
from dray.api.pods import MIRROR_ANNOTATION
from dray.api.quantity import Quantity
from dray.api.rules import Rules
from dray.api.validation import (
    amounts,
    containers,
    fields,
    metadata,
    node_selectors,
    paths,
    pod_affinity,
    pod_names,
    security_contexts,
    tolerations,
    volumes,
)
from dray.api.validation.fields import Errors

_RESTART_POLICIES = ["Always", "Never", "OnFailure"]
_PREEMPTION_POLICIES = ["Never", "PreemptLowerPriority"]
_MAX_DEADLINE = 2**31 - 1


def validate(pod: Object, rules: Rules) -> Errors:
    spec = pod["spec"]
    if spec.get("resourceClaims") and MIRROR_ANNOTATION in annotations_of(pod):
        yield errors.forbidden("", "static pods do not support resource claims")
    yield from validate_spec(spec, "spec")


def validate_template(template: Object, path: str) -> Errors:
    """Validates a PodTemplateSpec."""
    yield from validate_template_metadata(template, path)
    yield from validate_spec(template["spec"], f"{path}.spec")
    if template["spec"].get("ephemeralContainers"):
        yield errors.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def validate_template_metadata(template: Object, path: str) -> Errors:
    yield from metadata.labels(labels_of(template), f"{path}.labels")
    yield from metadata.annotations(annotations_of(template), f"{path}.annotations")


def validate_spec(spec: Object, path: str) -> Errors:
    yield from paths.no_nul(spec, path)
    yield from _containers(spec, path)
    if spec.get("securityContext"):
        yield from security_contexts.validate_pod(spec["securityContext"], f"{path}.securityContext")
    yield from fields.enum(spec.get("restartPolicy"), _RESTART_POLICIES, f"{path}.restartPolicy", required=True)
    if spec.get("volumes"):
        yield from volumes.validate(spec["volumes"], f"{path}.volumes")
    if spec.get("resources"):
        yield from _resources(spec, f"{path}.resources")
    yield from _resource_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    yield from _placement(spec, path)
    yield from _names(spec, path)
    yield from pod_names.validate(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        detail = f"must be between 1 and {_MAX_DEADLINE}, inclusive"
        yield errors.invalid(f"{path}.activeDeadlineSeconds", deadline, detail)
    if spec.get("overhead"):
        # Written as limits, and reported as such.
        yield from amounts.requirements({"limits": spec["overhead"]}, f"{path}.overhead")
    if spec.get("schedulingGroup") is not None:
        yield from _scheduling_group(spec, f"{path}.schedulingGroup")


def _containers(spec: Object, path: str) -> Errors:
    claims = frozenset(claim["name"] for claim in spec.get("resourceClaims") or ())
    mountable = frozenset(volume["name"] for volume in spec.get("volumes") or ())
    around = containers.PodContext(claims, mountable)
    if not spec["containers"]:
        yield errors.required(f"{path}.containers")
    for index, container in enumerate(spec.get("initContainers") or ()):
        yield from containers.validate(container, f"{path}.initContainers[{index}]", around)
        # They run one after the other.
        around.host_ports.clear()
    for index, container in enumerate(spec["containers"] or ()):
        yield from containers.validate(container, f"{path}.containers[{index}]", around)
        if spec.get("hostNetwork"):
            yield from _host_network(container, f"{path}.containers[{index}]")
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        yield from containers.validate(container, f"{path}.ephemeralContainers[{index}]", around, ephemeral=True)


def _host_network(container: Object, path: str) -> Errors:
    for index, port in enumerate(container.get("ports") or ()):
        host_port = port.get("hostPort", 0)
        if host_port and host_port != port["containerPort"]:
            detail = "must match `containerPort` when `hostNetwork` is true"
            yield errors.invalid(f"{path}.ports[{index}].hostPort", host_port, detail)


def _placement(spec: Object, path: str) -> Errors:
    """Validates the members that decide where and when the pod is scheduled."""
    if spec.get("nodeSelector"):
        yield from metadata.labels(spec["nodeSelector"], f"{path}.nodeSelector")
    affinity = mapping(spec.get("affinity"))
    if affinity.get("nodeAffinity") is not None:
        yield from node_selectors.validate_affinity(affinity["nodeAffinity"], f"{path}.affinity.nodeAffinity")
    for member in ("podAffinity", "podAntiAffinity"):
        if affinity.get(member) is not None:
            yield from pod_affinity.validate(affinity[member], f"{path}.affinity.{member}")
    if spec.get("tolerations"):
        yield from tolerations.validate(spec["tolerations"], f"{path}.tolerations")
    if spec.get("topologySpreadConstraints"):
        constraints = spec["topologySpreadConstraints"]
        yield from pod_affinity.validate_spread(constraints, f"{path}.topologySpreadConstraints")
    if spec.get("schedulingGates"):
        yield from _gates(spec["schedulingGates"], f"{path}.schedulingGates")
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        yield from fields.enum(policy, _PREEMPTION_POLICIES, f"{path}.preemptionPolicy", required=True)


def _gates(gates: list[Object], path: str) -> Errors:
    seen = set()
    for index, gate in enumerate(gates):
        if not names.is_label_key(gate["name"]):
            yield errors.invalid(f"{path}[{index}]", gate["name"], names.LABEL_KEY_DETAIL)
        if gate["name"] in seen:
            yield errors.duplicate(f"{path}[{index}]", gate["name"])
        seen.add(gate["name"])


def _names(spec: Object, path: str) -> Errors:
    for member in ("nodeName", "serviceAccountName", "priorityClassName", "runtimeClassName"):
        if spec.get(member):
            yield from fields.subdomain(spec[member], f"{path}.{member}")


def _resources(spec: Object, path: str) -> Errors:
    """Validates pod-level resources: at least the sum of container requests, no container limit above them."""
    resources = spec["resources"]
    if resources.get("claims"):
        yield errors.forbidden(f"{path}.claims", "claims cannot be set for resources at pod level")
    yield from amounts.requirements(resources, path, whole_pod=True)
    requests, limits = mapping(resources.get("requests")), mapping(resources.get("limits"))
    for name, amount in effective(spec, _requested).items():
        if name in requests and amount > Quantity.parse(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {amount}"
            yield errors.invalid(f"{path}.requests[{name}]", requests[name], detail)
    for index, container in enumerate(spec["containers"] or ()):
        for name, limit in mapping(container["resources"].get("limits")).items():
            if name in limits and Quantity.parse(limit) > Quantity.parse(limits[name]):
                at = f"{path}.containers[{index}][{name}].limits"
                yield errors.invalid(at, limit, f"must be less than or equal to pod limits of {limits[name]}")


def _requested(container: Object) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in mapping(container["resources"].get("requests")).items()}


def _resource_claims(claims: list[Object], path: str) -> Errors:
    seen = set()
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        name = claim["name"]
        if not name:
            yield errors.required(f"{at}.name")
        elif name in seen:
            yield errors.duplicate(f"{at}.name", name)
        else:
            yield from fields.label(name, f"{at}.name")
            seen.add(name)
        chosen = [
            member for member in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(member) is not None
        ]
        if len(chosen) != 1:
            problem = "must specify one of" if not chosen else "may not have more than one of"
            yield errors.invalid(at, claim, f"{problem}: `resourceClaimName`, `resourceClaimTemplateName`")
        for member in chosen:
            yield from fields.subdomain(claim[member], f"{at}.{member}")


def _scheduling_group(spec: Object, path: str) -> Errors:
    name = spec["schedulingGroup"].get("podGroupName")
    if not name or not names.is_subdomain(name):
        yield errors.invalid(f"{path}.podGroupName", name or "", names.SUBDOMAIN_DETAIL)
    if spec.get("evictionResponders"):
        yield errors.forbidden(path, "may not be set together with evictionResponders")
