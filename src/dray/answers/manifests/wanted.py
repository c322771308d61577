"""Wanted: the pods and claims of manifests, each as a pod that the scheduler can place.

A pod is read as an API server would store it, with the claims that it names and those made from its templates. A claim
that no pod uses gets a pod that tolerates every taint and requests nothing else.
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
    """A pod to place, or a claim that no pod uses."""

    kind: str
    namespace: str
    name: str
    pod: Object
    """The pod that the scheduler places; for a claim, a pod that uses it."""
    claims: list[Object] = field(default_factory=list)
    """Claims that are made for the pod from templates."""
    missing: str = ""
    """A message about a claim or template that does not exist; empty if all exist."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def extended_claim_name(self) -> str:
        """The name of the claim for the extended resources of the pod."""
        return f"{self.name}-extended-resources"

    def matches(self, target: str) -> bool:
        """Returns True if `target` (NAME, NAMESPACE/NAME, pod/NAME or claim/NAME) means this pod or claim."""
        names = {self.name, f"{self.namespace}/{self.name}"}
        return target in names or target in {f"{self.kind}/{name}" for name in names}


@dataclass(slots=True)
class Workload:
    """A pod, or the pod of a workload, as a server would store it, and its number of replicas."""

    kind: str
    namespace: str
    name: str
    pod: Object
    replicas: int | None
    """The number of pods that a workload makes; None for a Pod."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def group(self) -> str:
        return group_name(self.pod)


def replicas(document: Object) -> int | None:
    """Returns how many pods a workload makes, with a limit; None for a Pod."""
    if document.get("kind") == "Pod":
        return None
    spec = mapping(document.get("spec"))
    if document.get("kind") in ("Job", "CronJob"):
        return _job_pods(mapping(mapping(spec.get("jobTemplate")).get("spec")) or spec)
    number = spec.get("replicas", 1)
    return max(0, min(number, _MOST_REPLICAS)) if isinstance(number, int) else 1


def _job_pods(spec: Object) -> int:
    """Returns how many pods a Job runs at once: `parallelism`, but not more than its `completions`."""
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    number = parallelism if isinstance(parallelism, int) else 1
    most = min(_MOST_REPLICAS, completions) if isinstance(completions, int) else _MOST_REPLICAS
    return max(0, min(number, most))


def wanted_pods(
    workloads: Iterable[Workload], claims: Mapping[Key, Object], templates: Mapping[Key, Object], resources: ResourceMap
) -> Iterator[Wanted]:
    """Yields the pods that request devices."""
    for workload in workloads:
        if not workload.pod["spec"].get("resourceClaims") and not extended.wanted(workload.pod, resources):
            continue
        for number in range(1 if workload.replicas is None else workload.replicas):
            name = workload.name if workload.replicas is None else f"{workload.name}-{number}"
            pod = _pending_pod(workload.pod, workload.namespace, name)
            wanted = Wanted("pod", workload.namespace, name, pod)
            try:
                wanted.claims = list(_template_claims(pod, claims, templates))
            except Missing as problem:
                wanted.missing = str(problem)
            yield wanted


def wanted_claim(document: Object) -> Wanted:
    """Returns a claim that no pod uses, with a pod that uses it."""
    namespace, name = key_of(document)
    entries = [{"name": "claim", "resourceClaimName": name}]
    pod = {"metadata": {}, "spec": {"tolerations": _ANYWHERE, "preemptionPolicy": "Never", "resourceClaims": entries}}
    return Wanted("claim", namespace, name, _pending_pod(pod, namespace, name))


def unserved_resources(workload: Workload, resources: ResourceMap) -> list[str]:
    """Returns the extended resources that the pod requests and no DeviceClass provides."""
    return sorted(
        name for name in requests(workload.pod["spec"]) if extended.is_extended(name) and not resources.class_of(name)
    )


def _pending_pod(document: Object, namespace: str, name: str) -> Object:
    """Returns the pod without a node; if it was bound to a node already, it may be placed only there."""
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


def _template_claims(pod: Object, claims: Mapping[Key, Object], templates: Mapping[Key, Object]) -> Iterator[Object]:
    """Yields the claims that are made from the templates of the pod. Raises Missing."""
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
