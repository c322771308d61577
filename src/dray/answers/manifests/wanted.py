"""Pods and claims among given manifests, each as a pod that the scheduler is asked to place.

A pod is read as an API server would store it. Its claims are those it names and those its templates make. A claim that
no pod uses is asked for by a pod that may go anywhere and needs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.answers.manifests.claim_specs import Spec, pod_claims
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Key, Object, key_of, mapping
from dray.api.pod_requests import requests
from dray.api.pods import group_name
from dray.scheduling.cluster import extended
from dray.scheduling.cluster.extended import ResourceMap

_MOST_REPLICAS: Final = 1000
_ANYWHERE: Final = [{"operator": "Exists"}]


class Missing(Exception):
    """A pod refers to a claim or template that is not among the manifests."""


@dataclass(slots=True)
class Wanted:
    """A pod, or a claim by itself."""

    kind: str
    namespace: str
    name: str
    pod: Object
    """What the scheduler is given."""
    claims: list[Object] = field(default_factory=list)
    """Those that are made for the pod, from templates."""
    missing: str = ""

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
    workloads: Iterable[Workload], claims: Mapping[Key, Object], templates: Mapping[Key, Object], resources: ResourceMap
) -> Iterator[Wanted]:
    """The pods that want devices."""
    for workload in workloads:
        if not workload.pod["spec"].get("resourceClaims") and not extended.wanted(workload.pod, resources):
            continue
        for number in range(1 if workload.replicas is None else workload.replicas):
            name = workload.name if workload.replicas is None else f"{workload.name}-{number}"
            pod = _unplaced(workload.pod, workload.namespace, name)
            wanted = Wanted("pod", workload.namespace, name, pod)
            try:
                wanted.claims = list(_generated(pod, claims, templates))
            except Missing as problem:
                wanted.missing = str(problem)
            yield wanted


def claim(document: Object) -> Wanted:
    """A claim that no pod uses."""
    namespace, name = key_of(document)
    entries = [{"name": "claim", "resourceClaimName": name}]
    pod = {"metadata": {}, "spec": {"tolerations": _ANYWHERE, "preemptionPolicy": "Never", "resourceClaims": entries}}
    return Wanted("claim", namespace, name, _unplaced(pod, namespace, name))


def unserved(workload: Workload, resources: ResourceMap) -> list[str]:
    """Extended resources that the pod asks for and no class serves."""
    return sorted(
        name for name in requests(workload.pod["spec"]) if extended.is_extended(name) and not resources.class_of(name)
    )


def _unplaced(document: Object, namespace: str, name: str) -> Object:
    """The pod, for the scheduler to place; one that is bound already is for its node only."""
    spec = dict(document["spec"])
    if node := spec.pop("nodeName", ""):
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        spec["tolerations"] = _ANYWHERE
    metadata = {**document["metadata"], "namespace": namespace, "name": name, "uid": f"{namespace}/{name}"}
    statuses = [
        {"name": entry.name, "resourceClaimName": f"{name}-{entry.name}"}
        for entry in pod_claims(Spec("spec", spec))
        if not entry.claim
    ]
    return {"metadata": metadata, "spec": spec, "status": {"resourceClaimStatuses": statuses}}


def _generated(pod: Object, claims: Mapping[Key, Object], templates: Mapping[Key, Object]) -> Iterator[Object]:
    """The claims that the pod's templates make."""
    namespace, pod_name = key_of(pod)
    owner = {"kind": "Pod", "name": pod_name, "uid": pod["metadata"]["uid"], "controller": True}
    for entry in pod_claims(Spec("spec", pod["spec"])):
        if entry.claim:
            if (namespace, entry.claim) not in claims:
                raise Missing(f"ResourceClaim {namespace}/{entry.claim} not found")
            continue
        template = templates.get((namespace, entry.template))
        if template is None:
            raise Missing(f"ResourceClaimTemplate {namespace}/{entry.template} not found")
        name = f"{pod_name}-{entry.name}"
        yield {
            "apiVersion": f"{RESOURCE_GROUP}/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{namespace}/{name}",
                "annotations": mapping(mapping(template["spec"].get("metadata")).get("annotations")),
                "ownerReferences": [owner],
            },
            "spec": template["spec"]["spec"],
        }
