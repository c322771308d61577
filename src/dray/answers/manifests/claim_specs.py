"""The specs of claims and pods, wherever a document keeps them.

Claims keep theirs in `spec`, templates in `spec.spec`; pods in `spec`, workloads in a pod template further
down. The rules ask for the specs of a document and get them with their paths, in whichever version the file
is written.
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
    path: str
    value: dict[str, Any]

    def items(self, *names: str) -> Iterator[Spec]:
        """The mappings of the list along the names, each with its path."""
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
    """The spec of a claim or of the claims that a template makes."""
    if group_name(document) != RESOURCE_GROUP:
        return None
    if document.get("kind") == "ResourceClaim":
        return Spec("spec", walk(document, "spec"))
    if document.get("kind") == "ResourceClaimTemplate":
        return Spec("spec.spec", walk(document, "spec", "spec"))
    return None


def pod_spec(document: dict[str, Any]) -> Spec | None:
    """The pod spec of a pod or of a workload's pod template."""
    path = _POD_SPECS.get((text(document.get("apiVersion")), text(document.get("kind"))))
    return Spec(".".join(path), walk(document, *path)) if path else None


def made_pod_spec(document: dict[str, Any]) -> Spec | None:
    """The spec of the pods that are made: those of a StatefulSet have volumes for its volume claims."""
    found = pod_spec(document)
    claims = mappings(walk(document, "spec").get("volumeClaimTemplates"))
    if found is None or not claims:
        return found
    names = [text(walk(each, "metadata").get("name")) for each in claims]
    # After its own, which keep their places.
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names]
    return Spec(found.path, {**found.value, "volumes": [*sequence(found.value.get("volumes")), *volumes]})


def request_bodies(request: Spec) -> Iterator[Spec]:
    """Where a request says what it wants: `exactly`, itself (v1beta1), or each of `firstAvailable`."""
    if "exactly" in request.value:
        yield Spec(f"{request.path}.exactly", mapping(request.value["exactly"]))
    elif "deviceClassName" in request.value:
        yield request
    yield from request.items("firstAvailable")


def request_names(claim: Spec) -> set[str]:
    """What constraints and configs may name: requests, and alternatives as `request/alternative`."""
    names = set()
    for request in claim.items("devices", "requests"):
        name = text(request.value.get("name"))
        names.add(name)
        names.update(f"{name}/{text(each.value.get('name'))}" for each in request.items("firstAvailable"))
    return names


def pod_claims(pod: Spec) -> Iterator[PodClaim]:
    for entry in pod.items("resourceClaims"):
        source = mapping(entry.value.get("source"))
        yield PodClaim(
            entry.path,
            text(entry.value.get("name")),
            text(entry.value.get("resourceClaimName") or source.get("resourceClaimName")),
            text(entry.value.get("resourceClaimTemplateName") or source.get("resourceClaimTemplateName")),
        )


def container_claims(pod: Spec) -> Iterator[Spec]:
    """The entries of `resources.claims` of every container."""
    for member in ("initContainers", "containers"):
        for container in pod.items(member):
            yield from container.items("resources", "claims")
