"""Manifests as a small cluster, and the placing of its pods and claims one after the other.

Nodes, slices, classes, taint rules and allocated claims make up the cluster; without Node objects, the nodes that
slices name. Pods come first, each with all its claims on one node, then claims that no pod uses, in the order of the
files. Each is given the first node that serves it, and what it got is in use for those after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dray.allocation import Allocation, Inventory, Policy, Rejection, allocate, commit
from dray.allocation.node_selectors import NodeSelectorError, matches
from dray.api.objects import Object, labels_of
from dray.api.resource_claims import allocation_of
from dray.cli.manifests import Manifest
from dray.cli.stored import Stored, key_of, read_objects
from dray.cli.wanted import Wanted, Workload, pods, unserved
from dray.scheduling.extended import ResourceMap


@dataclass(slots=True)
class Placement:
    """What became of one: the node and the allocation, or what each node said."""

    wanted: Wanted
    allocation: Allocation | None = None
    node: str = ""
    rejections: list[Rejection] = field(default_factory=list)
    mappings: list[Object] = field(default_factory=list)
    """Which container gets which extended resource from which request of the claim for those."""

    @property
    def fits(self) -> bool:
        return not self.wanted.missing and bool(self.node)


@dataclass(slots=True)
class Cluster:
    inventory: Inventory
    resources: ResourceMap
    nodes: list[Object]
    wanted: list[Wanted]
    allocations: dict[tuple[str, str], Object]
    """What each claim holds, by namespace and name."""
    notes: list[str]
    """What the manifests ask for and is not looked at."""

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
        for node in self.eligible(wanted) if not wanted.missing else ():
            claims, mappings = self.claims_on(wanted, node)
            answer = allocate(self.inventory, node, claims, policy=policy)
            if isinstance(answer, Allocation):
                placement.allocation, placement.node, placement.mappings = answer, answer.node, mappings
                break
            placement.rejections.append(answer)
        return placement

    def claims_on(self, wanted: Wanted, node: Object) -> tuple[list[Object], list[Object]]:
        """Those of its claims that need devices of the node, the one for extended resources last, and its mappings."""
        claims = [claim for claim in wanted.claims if key_of(claim) not in self.allocations]
        special = wanted.special(node, self.resources)
        return ([*claims, special[0]], special[1]) if special else (claims, [])

    def eligible(self, wanted: Wanted) -> Iterator[Object]:
        """The nodes that the pod and the claims it shares with others allow."""
        held = [self.allocations[key] for claim in wanted.claims if (key := key_of(claim)) in self.allocations]
        selectors = [each["nodeSelector"] for each in held if each.get("nodeSelector")]
        for node in self.nodes:
            name, labels = node["metadata"]["name"], labels_of(node)
            if wanted.node_name not in ("", name) or wanted.node_labels.items() - labels.items():
                continue
            try:
                if all(matches(selector, name, labels) for selector in selectors):
                    yield node
            except NodeSelectorError:
                continue


def read_cluster(manifests: Sequence[Manifest], node: str = "") -> Cluster:
    """The cluster that the manifests describe, or only `node` of it; raises Unusable."""
    stored = read_objects(manifests)
    claims = {key_of(claim): claim for claim in stored.of("ResourceClaim")}
    allocated = {key: claim for key, claim in claims.items() if allocation_of(claim)}
    inventory = Inventory(
        slices=stored.of("ResourceSlice"),
        classes=stored.of("DeviceClass"),
        claims=allocated.values(),
        taint_rules=stored.of("DeviceTaintRule"),
    )
    resources = ResourceMap()
    for each in stored.of("DeviceClass"):
        resources.put_class(each)
    templates = {key_of(each): each for each in stored.of("ResourceClaimTemplate")}
    wanted = list(pods(stored.workloads, claims, templates, resources))
    used = {key_of(claim) for each in wanted for claim in each.claims}
    wanted += [
        Wanted("claim", *key, claims=[claim]) for key, claim in claims.items() if key not in used | allocated.keys()
    ]
    holdings = {key: claim["status"]["allocation"] for key, claim in allocated.items()}
    nodes = [each for each in _nodes(stored) if node in ("", each["metadata"]["name"])]
    return Cluster(inventory, resources, nodes, wanted, holdings, list(_notes(stored.workloads, resources)))


def _nodes(stored: Stored) -> Sequence[Object]:
    return stored.of("Node") or [{"metadata": {"name": name}} for name in _named(stored.of("ResourceSlice"))]


def _named(slices: Iterable[Object]) -> list[str]:
    """The nodes that slices name, for want of Node objects; one without a name of its own where there are none."""
    names = {each["spec"].get("nodeName") for each in slices}
    names |= {device.get("nodeName") for each in slices for device in each["spec"].get("devices") or ()}
    return sorted(name for name in names if name) or ["node"]


def _notes(workloads: Iterable[Workload], resources: ResourceMap) -> Iterator[str]:
    groups = []
    for each in workloads:
        if names := unserved(each, resources):
            what = f"asks for {', '.join(names)}, which no given DeviceClass serves: not looked at"
            yield f"{each.title} {what}"
        if (group := each.group) and group not in groups:
            groups.append(group)
    if groups:
        yield f"pods of a group are placed one by one here, not all or none: {', '.join(groups)}"
