"""Finds the specs of claims, classes and pods in a document.

A claim has its spec in `spec`, a template in `spec.spec`; a pod has it in `spec`, a workload in its pod template. The
functions return specs with their paths, for all versions of the API.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import mapping, mappings, sequence, text, walk

_POD_SPECS: Final = {
    ("v1", "Pod"): ("spec",),
    ("v1", "PodTemplate"): ("template", "spec"),
    ("v1", "ReplicationController"): ("spec", "template", "spec"),
    ("apps/v1", "Deployment"): ("spec", "template", "spec"),
    ("apps/v1", "ReplicaSet"): ("spec", "template", "spec"),
    ("apps/v1", "StatefulSet"): ("spec", "template", "spec"),
    ("apps/v1", "DaemonSet"): ("spec", "template", "spec"),
    ("batch/v1", "Job"): ("spec", "template", "spec"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """A mapping in a document, and its path."""

    path: str
    value: dict[str, Any]

    def items(self, *names: str) -> Iterator[Spec]:
        """Yields the mappings in the list at these names, with their paths."""
        path = ".".join((self.path, *names))
        for index, item in enumerate(sequence(walk(self.value, *names[:-1]).get(names[-1]))):
            yield Spec(f"{path}[{index}]", mapping(item))


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of a pod's `resourceClaims`."""

    path: str
    name: str
    claim: str
    template: str


def group_name(document: dict[str, Any]) -> str:
    group, slash, _ = text(document.get("apiVersion")).partition("/")
    return group if slash else ""


def claim_spec(document: dict[str, Any]) -> Spec | None:
    """Returns the spec of a claim, or of the claims that a template makes; None for other kinds."""
    if group_name(document) != RESOURCE_GROUP:
        return None
    if document.get("kind") == "ResourceClaim":
        return Spec("spec", walk(document, "spec"))
    if document.get("kind") == "ResourceClaimTemplate":
        return Spec("spec.spec", walk(document, "spec", "spec"))
    return None


def class_spec(document: dict[str, Any]) -> Spec | None:
    """Returns the spec of a DeviceClass; None for other kinds."""
    if group_name(document) == RESOURCE_GROUP and document.get("kind") == "DeviceClass":
        return Spec("spec", walk(document, "spec"))
    return None


def pod_spec(document: dict[str, Any]) -> Spec | None:
    """Returns the pod spec of a pod or of a workload's pod template; None for other kinds."""
    path = _POD_SPECS.get((text(document.get("apiVersion")), text(document.get("kind"))))
    return Spec(".".join(path), walk(document, *path)) if path else None


def made_pod_spec(document: dict[str, Any]) -> Spec | None:
    """Returns the spec of the pods that are made; pods of a StatefulSet get volumes for its volume claims."""
    found = pod_spec(document)
    claims = mappings(walk(document, "spec").get("volumeClaimTemplates"))
    if found is None or not claims:
        return found
    names = [text(walk(claim, "metadata").get("name")) for claim in claims]
    # The volumes of the template come first, so that they keep their index.
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return Spec(found.path, {**found.value, "volumes": [*sequence(found.value.get("volumes")), *volumes]})


def request_bodies(request: Spec) -> Iterator[Spec]:
    """Yields the parts of a request that name a class: `exactly`, itself (v1beta1), or items of `firstAvailable`."""
    if "exactly" in request.value:
        yield Spec(f"{request.path}.exactly", mapping(request.value["exactly"]))
    elif "deviceClassName" in request.value:
        yield request
    yield from request.items("firstAvailable")


def cel_expressions(body: Spec) -> Iterator[tuple[str, str]]:
    """Yields the CEL selectors of a request or a class, each with its path."""
    for selector in body.items("selectors"):
        yield f"{selector.path}.cel.expression", text(walk(selector.value, "cel").get("expression"))


def request_names(claim: Spec) -> set[str]:
    """Returns the names that constraints and configs may use: requests, and alternatives as `request/alternative`."""
    names = set()
    for request in claim.items("devices", "requests"):
        name = text(request.value.get("name"))
        names.add(name)
        alternatives = request.items("firstAvailable")
        names.update(f"{name}/{text(alternative.value.get('name'))}" for alternative in alternatives)
    return names


def pod_claims(pod: Spec) -> Iterator[PodClaim]:
    """Yields the entries of `resourceClaims` of a pod spec."""
    for entry in pod.items("resourceClaims"):
        source = mapping(entry.value.get("source"))
        yield PodClaim(
            entry.path,
            text(entry.value.get("name")),
            text(entry.value.get("resourceClaimName") or source.get("resourceClaimName")),
            text(entry.value.get("resourceClaimTemplateName") or source.get("resourceClaimTemplateName")),
        )


def container_claims(pod: Spec) -> Iterator[Spec]:
    """Yields the entries of `resources.claims` of all containers."""
    for member in ("initContainers", "containers"):
        for container in pod.items(member):
            yield from container.items("resources", "claims")
