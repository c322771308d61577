"""Pod: the claim fields in full, and of the rest what decides whether a pod can be run at all."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.quantity import Quantity
from dray.api.rules import Rules
from dray.api.validation import fields, metadata, node_selectors
from dray.api.validation.fields import Errors, Object

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_RESTART_POLICIES = ["Always", "Never", "OnFailure"]
_DNS_POLICIES = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]
_PULL_POLICIES = ["Always", "IfNotPresent", "Never"]


def validate(pod: Object, rules: Rules) -> Errors:
    spec = pod["spec"]
    if spec.get("resourceClaims") and MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or {}):
        yield errors.forbidden("", "static pods do not support resource claims")
    yield from validate_spec(spec, "spec")


def validate_template(template: Object, path: str) -> Errors:
    """What pods are made from: a PodTemplateSpec."""
    yield from metadata.labels(template["metadata"].get("labels") or {}, f"{path}.labels")
    yield from metadata.annotations(template["metadata"].get("annotations") or {}, f"{path}.annotations")
    yield from validate_spec(template["spec"], f"{path}.spec")
    if template["spec"].get("ephemeralContainers"):
        yield errors.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def validate_spec(spec: Object, path: str) -> Errors:
    claims = {claim["name"] for claim in spec.get("resourceClaims") or []}
    seen: set[str] = set()
    if not spec["containers"]:
        yield errors.required(f"{path}.containers")
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(member) or []):
            at = f"{path}.{member}[{index}]"
            yield from _container(container, at, seen, claims, ephemeral=member == "ephemeralContainers")
    yield from fields.enum(spec.get("restartPolicy"), _RESTART_POLICIES, f"{path}.restartPolicy", required=True)
    yield from fields.enum(spec.get("dnsPolicy"), _DNS_POLICIES, f"{path}.dnsPolicy", required=True)
    if (spec.get("resources") or {}).get("claims"):
        yield errors.forbidden(f"{path}.resources.claims", "claims cannot be set for resources at pod level")
    yield from _resource_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    if spec.get("nodeName") and not names.is_subdomain(spec["nodeName"]):
        yield errors.invalid(f"{path}.nodeName", spec["nodeName"], names.SUBDOMAIN_DETAIL)
    if spec.get("nodeSelector"):
        yield from metadata.labels(spec["nodeSelector"], f"{path}.nodeSelector")
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if affinity is not None:
        yield from node_selectors.validate_affinity(affinity, f"{path}.affinity.nodeAffinity")
    if spec.get("schedulingGroup") is not None:
        yield from _scheduling_group(spec, f"{path}.schedulingGroup")


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


def _container(container: Object, path: str, seen: set[str], claims: set[str], *, ephemeral: bool) -> Errors:
    name, image = container["name"], container.get("image", "")
    if not name:
        yield errors.required(f"{path}.name")
    else:
        yield from fields.label(name, f"{path}.name")
    if name in seen:
        yield errors.duplicate(f"{path}.name", name)
    elif name:
        seen.add(name)
    if not image:
        yield errors.required(f"{path}.image")
    elif image != image.strip():
        yield errors.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from fields.enum(container.get("imagePullPolicy"), _PULL_POLICIES, f"{path}.imagePullPolicy", required=True)
    resources = container["resources"]
    if ephemeral:
        if resources:
            yield errors.forbidden(f"{path}.resources", "cannot be set for an ephemeral container")
        return
    yield from _resources(resources, f"{path}.resources")
    yield from _container_claims(resources.get("claims") or [], f"{path}.resources.claims", claims)


def _container_claims(entries: list[Object], path: str, claims: set[str]) -> Errors:
    """A claim is taken whole or request by request, each of them once."""
    whole: set[str] = set()
    partial: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        name, request = entry["name"], entry.get("request", "")
        if not name:
            yield errors.required(at)
        elif request:
            if name in whole or (name, request) in pairs:
                yield errors.duplicate(at, f"{name}/{request}")
            pairs.add((name, request))
            partial.add(name)
        else:
            if name in whole or name in partial:
                yield errors.duplicate(at, name)
            whole.add(name)
        if name and name not in claims:
            yield errors.not_found(at, name)
        if request:
            yield from fields.label(request, f"{at}.request")


def _resources(resources: Object, path: str) -> Errors:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for member, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _resource(name, amount, f"{path}.{member}[{name}]")
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if not _overcommittable(name):
                yield errors.required(f"{path}.limits", f"limit must be set for {name}, which cannot be overcommitted")
        elif Quantity.parse(amount) > Quantity.parse(limit):
            yield errors.invalid(
                f"{path}.requests", amount, f"must be less than or equal to the {name} limit of {limit}"
            )
        elif amount != limit and not _overcommittable(name):
            yield errors.invalid(f"{path}.requests", amount, f"must be equal to the {name} limit of {limit}")


def _resource(name: str, amount: str, path: str) -> Errors:
    if not names.is_label_key(name):
        yield errors.invalid(path, name, names.LABEL_KEY_DETAIL)
    elif "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
        yield errors.invalid(path, name, "must be a standard resource for containers, or have a domain")
    quantity = Quantity.parse(amount)
    if quantity.sign() < 0:
        yield errors.invalid(path, amount, "must be greater than or equal to 0")
    elif _is_extended(name) and not quantity.is_integral():
        yield errors.invalid(path, amount, "must be an integer")


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _overcommittable(name: str) -> bool:
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")
