"""Manifests as a small cluster, and the placing of its pods and claims one after the other.

Nodes, slices, classes, taint rules and allocated claims make up the cluster; without Node objects, the nodes that
slices name. Pods come first, each with all its claims on one node, then claims that no pod uses, in the order of the
files. Each is given the first node that serves it, and what it got is in use for those after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.allocation import Allocation, Inventory, Policy, Rejection, allocate, commit
from dray.allocation.node_selectors import NodeSelectorError, matches
from dray.api import intake
from dray.api.catalogue import RESOURCE_GROUP, find
from dray.api.gates import ALL_GATES
from dray.api.shapes import mapping
from dray.cli.claimspecs import Spec, pod_claims, pod_spec
from dray.cli.manifests import Manifest
from dray.yaml.text import ManifestError

Object = dict[str, Any]

_EPOCH: Final = "1970-01-01T00:00:00Z"
_WANTED: Final = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule")
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

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def answers_to(self, target: str) -> bool:
        """Whether `target` (NAME, NAMESPACE/NAME, pod/NAME, claim/NAME) means this."""
        names = {self.name, f"{self.namespace}/{self.name}"}
        return target in names or target in {f"{self.kind}/{name}" for name in names}


@dataclass(slots=True)
class Placement:
    """What became of one: the node and the allocation, or what each node said."""

    wanted: Wanted
    allocation: Allocation | None = None
    node: str = ""
    rejections: list[Rejection] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        return not self.wanted.missing and bool(self.node)


@dataclass(slots=True)
class Cluster:
    inventory: Inventory
    nodes: list[Object]
    wanted: list[Wanted]
    allocations: dict[tuple[str, str], Object]
    """What each claim holds, by namespace and name."""

    def place(self, wanted: Wanted, policy: Policy) -> Placement:
        """Takes the first allocation that a node offers into use."""
        placement = self.ask(wanted, policy)
        if placement.allocation is not None:
            commit(self.inventory, placement.allocation)
            pairs = zip(placement.allocation.claims, placement.allocation.results, strict=True)
            self.allocations.update(pairs)
        return placement

    def ask(self, wanted: Wanted, policy: Policy) -> Placement:
        """Asks the nodes in order, up to the first that serves it."""
        placement = Placement(wanted)
        claims = self.open_claims(wanted)
        for node in self.eligible(wanted) if not wanted.missing else ():
            answer = allocate(self.inventory, node, claims, policy=policy)
            if isinstance(answer, Allocation):
                placement.allocation, placement.node = answer, answer.node
                break
            placement.rejections.append(answer)
        return placement

    def open_claims(self, wanted: Wanted) -> list[Object]:
        """Those of its claims that hold nothing yet."""
        return [claim for claim in wanted.claims if _key(claim) not in self.allocations]

    def eligible(self, wanted: Wanted) -> Iterator[Object]:
        """The nodes that the pod and the claims it shares with others allow."""
        held = [self.allocations[key] for claim in wanted.claims if (key := _key(claim)) in self.allocations]
        selectors = [each["nodeSelector"] for each in held if each.get("nodeSelector")]
        for node in self.nodes:
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            if wanted.node_name not in ("", name) or wanted.node_labels.items() - labels.items():
                continue
            try:
                if all(matches(selector, name, labels) for selector in selectors):
                    yield node
            except NodeSelectorError:
                continue


def read_cluster(manifests: Sequence[Manifest], node: str = "") -> Cluster:
    """The cluster that the manifests describe, or only `node` of it; raises ManifestError."""
    objects: dict[str, list[Object]] = {}
    pods: list[Object] = []
    for manifest in manifests:
        if pod_spec(manifest.document) is not None:
            pods.append(manifest.document)
        elif manifest.kind in _WANTED or (manifest.api_version, manifest.kind) == ("v1", "Node"):
            objects.setdefault(manifest.kind, []).append(_decoded(manifest))
    claims = {_key(claim): claim for claim in objects.get("ResourceClaim", ())}
    allocated = {key: claim for key, claim in claims.items() if (claim.get("status") or {}).get("allocation")}
    inventory = Inventory(
        slices=objects.get("ResourceSlice", ()),
        classes=objects.get("DeviceClass", ()),
        claims=allocated.values(),
        taint_rules=objects.get("DeviceTaintRule", ()),
    )
    templates = {_key(each): each for each in objects.get("ResourceClaimTemplate", ())}
    wanted = list(_wanted(pods, claims, templates))
    used = {_key(claim) for each in wanted for claim in each.claims}
    wanted += [
        Wanted("claim", *key, claims=[claim]) for key, claim in claims.items() if key not in used | allocated.keys()
    ]
    holdings = {key: claim["status"]["allocation"] for key, claim in allocated.items()}
    nodes = objects.get("Node") or [{"metadata": {"name": name}} for name in _named(objects.get("ResourceSlice", ()))]
    return Cluster(inventory, [each for each in nodes if node in ("", each["metadata"]["name"])], wanted, holdings)


def _decoded(manifest: Manifest) -> Object:
    """The object in v1 shape with defaults, as an API server would store it."""
    target = find(manifest.api_version, manifest.kind)
    if target is None:
        known = f"dray convert rewrites old versions of {RESOURCE_GROUP}"
        raise _unusable(manifest, f"{manifest.api_version} is not served; {known}")
    problems = intake.check(manifest.document, gates=ALL_GATES)
    if problems:
        raise _unusable(manifest, str(problems[0]))
    decoded = intake.decode(manifest.document, target, now=_EPOCH, gates=ALL_GATES)
    if isinstance(decoded, intake.Refusal):
        raise _unusable(manifest, decoded.message)
    decoded["metadata"].setdefault("name", decoded["metadata"].get("generateName", ""))
    if target.namespaced:
        decoded["metadata"]["namespace"] = decoded["metadata"].get("namespace") or "default"
    return decoded


def _unusable(manifest: Manifest, message: str) -> ManifestError:
    place = manifest.place
    return ManifestError(f"{manifest.title}: {message}", source=manifest.source, line=place.line, column=place.column)


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "default", metadata.get("name") or ""


def _named(slices: Iterable[Object]) -> list[str]:
    """The nodes that slices name, for want of Node objects; one without a name of its own where there are none."""
    names = {each["spec"].get("nodeName") for each in slices}
    names |= {device.get("nodeName") for each in slices for device in each["spec"].get("devices") or ()}
    return sorted(name for name in names if name) or ["node"]


def _wanted(
    pods: Iterable[Object], claims: dict[tuple[str, str], Object], templates: dict[tuple[str, str], Object]
) -> Iterator[Wanted]:
    for document in pods:
        spec = pod_spec(document)
        if spec is None or not spec.value.get("resourceClaims"):
            continue
        namespace, name = _key(document)
        alone = document.get("kind") == "Pod"
        for number in range(1 if alone else _replicas(document)):
            pod = Wanted("pod", namespace, name if alone else f"{name}-{number}")
            pod.node_name = str(spec.value.get("nodeName") or "")
            pod.node_labels = mapping(spec.value.get("nodeSelector"))
            try:
                pod.claims = list(_claims_of(pod, spec, claims, templates))
            except Missing as problem:
                pod.missing = str(problem)
            yield pod


def _replicas(document: Object) -> int:
    spec = mapping(document.get("spec"))
    number = spec.get("replicas", spec.get("parallelism", 1))
    return max(0, min(number, _MOST_REPLICAS)) if isinstance(number, int) else 1


def _claims_of(
    pod: Wanted,
    spec: Spec,
    claims: dict[tuple[str, str], Object],
    templates: dict[tuple[str, str], Object],
) -> Iterator[Object]:
    for entry in pod_claims(spec):
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
