"""Claimants among given manifests: pods with their claims, pods of workloads, and claims that no pod uses.

A pod is read as an API server would store it. Its claims are those it names and those its templates make; a claim for
the extended resources that it asks for depends on the node, and is made by the scheduler's own rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Object, mapping, walk
from dray.api.pod_requests import amounts, requests
from dray.api.pods import group_name
from dray.cli.claim_specs import Spec, pod_claims
from dray.scheduling import extended
from dray.scheduling.extended import ResourceMap

Key = tuple[str, str]

_MOST_REPLICAS: Final = 1000


class Missing(Exception):
    """A pod refers to a claim or template that is not among the manifests."""


@dataclass(slots=True)
class Wanted:
    """A pod with its claims, or a claim by itself."""

    kind: str
    namespace: str
    name: str
    claims: list[Object] = field(default_factory=list)
    node_name: str = ""
    node_labels: dict[str, str] = field(default_factory=dict)
    missing: str = ""
    document: Object = field(default_factory=dict)
    """The pod."""
    extended: frozenset[str] = frozenset()
    """The extended resources that it asks for and a class serves."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def special_name(self) -> str:
        """Of the claim for its extended resources."""
        return f"{self.name}-extended-resources"

    def answers_to(self, target: str) -> bool:
        """Whether `target` (NAME, NAMESPACE/NAME, pod/NAME, claim/NAME) means this."""
        names = {self.name, f"{self.namespace}/{self.name}"}
        return target in names or target in {f"{self.kind}/{name}" for name in names}

    def special(self, node: Object, resources: ResourceMap) -> tuple[Object, list[Object]] | None:
        """The claim for the extended resources that devices must serve on the node, and which container gets what."""
        there = amounts(walk(node, "status").get("allocatable") or walk(node, "status").get("capacity"))
        served = frozenset(name for name in self.extended if not there.get(name))
        if not served:
            return None
        wants, mappings = extended.requests_for(self.document, served, resources)
        key = (self.namespace, self.special_name)
        return extended.claim_for(key, "/".join(key), wants), mappings


@dataclass(slots=True)
class Workload:
    """A pod as a server would store it, and how many of it are wanted."""

    kind: str
    namespace: str
    name: str
    pod: Object
    replicas: int | None
    """None for a pod by itself."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def group(self) -> str:
        return group_name(self.pod)


def replicas(document: Object) -> int | None:
    if document.get("kind") == "Pod":
        return None
    spec = mapping(document.get("spec"))
    number = spec.get("replicas", spec.get("parallelism", 1))
    return max(0, min(number, _MOST_REPLICAS)) if isinstance(number, int) else 1


def pods(
    workloads: Iterable[Workload], claims: dict[Key, Object], templates: dict[Key, Object], resources: ResourceMap
) -> Iterator[Wanted]:
    """The pods that want devices."""
    for workload in workloads:
        spec = workload.pod["spec"]
        served = extended.wanted(workload.pod, resources)
        if not spec.get("resourceClaims") and not served:
            continue
        for number in range(1 if workload.replicas is None else workload.replicas):
            name = workload.name if workload.replicas is None else f"{workload.name}-{number}"
            pod = Wanted("pod", workload.namespace, name, document=workload.pod, extended=served)
            pod.node_name = str(spec.get("nodeName") or "")
            pod.node_labels = mapping(spec.get("nodeSelector"))
            try:
                pod.claims = list(_claims_of(pod, claims, templates))
            except Missing as problem:
                pod.missing = str(problem)
            yield pod


def unserved(workload: Workload, resources: ResourceMap) -> list[str]:
    """Extended resources that the pod asks for and no class serves."""
    return sorted(
        name for name in requests(workload.pod["spec"]) if extended.is_extended(name) and not resources.class_of(name)
    )


def _claims_of(pod: Wanted, claims: dict[Key, Object], templates: dict[Key, Object]) -> Iterator[Object]:
    for entry in pod_claims(Spec("spec", pod.document["spec"])):
        if entry.claim:
            claim = claims.get((pod.namespace, entry.claim))
            if claim is None:
                raise Missing(f"there is no ResourceClaim {pod.namespace}/{entry.claim}")
            yield claim
            continue
        template = templates.get((pod.namespace, entry.template))
        if template is None:
            raise Missing(f"there is no ResourceClaimTemplate {pod.namespace}/{entry.template}")
        name = f"{pod.name}-{entry.name}"
        metadata = {"name": name, "namespace": pod.namespace, "uid": f"{pod.namespace}/{name}"}
        yield {
            "apiVersion": f"{RESOURCE_GROUP}/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": template["spec"]["spec"],
        }
