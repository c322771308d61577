"""ManifestCluster: places the pods and claims of manifests one after the other in a scheduler of its own.

The cluster has the nodes, slices, classes, taint rules and allocated claims of the manifests. Without Node objects it
has the nodes that slices name. Pods are placed first, then claims that no pod uses, in the order of the files. Of
equally good nodes the first is chosen. Devices that a pod or claim gets are in use for the pods and claims after it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dray.allocation import Policy, Work
from dray.answers.errors import InvalidInput
from dray.answers.explaining.explanation_trees import NodeAnswers
from dray.answers.manifests.reading import Reading
from dray.answers.manifests.stored import Stored, Unusable, read_objects
from dray.answers.manifests.wanted import Wanted, Workload, unserved_resources, wanted_claim, wanted_pods
from dray.answers.readable_objects import telling_unreadable
from dray.answers.schedulers import make_scheduler
from dray.answers.source import Tell
from dray.api.objects import Key, Object, key_of, status_of
from dray.api.pods import claims_used, node_of
from dray.api.resource_claims import allocation_of, reserved_for
from dray.scheduling.cluster.extended import ResourceMap
from dray.scheduling.core.pods import read
from dray.scheduling.model.actions import Bind, ClaimWrite
from dray.scheduling.model.node import DEFAULT_CAPACITY
from dray.scheduling.scheduler import Options, Scheduler
from dray.snapshot.listing import fill, put_readable

_PLENTY = "1000000"


@dataclass(slots=True)
class Placement:
    """The result of placing a pod or claim: the node and the allocations, or the answers of all nodes."""

    wanted: Wanted
    node: str = ""
    allocations: dict[Key, Object] = field(default_factory=dict)
    mappings: tuple[Object, ...] = ()
    """Maps the extended resources of containers to requests of the claim for extended resources."""
    answers: NodeAnswers | None = None

    @property
    def fits(self) -> bool:
        return bool(self.node)


class ManifestCluster:
    """A scheduler filled with manifests, and the pods and claims that it has to place."""

    def __init__(self, scheduler: Scheduler, wanted: list[Wanted], notes: list[str]) -> None:
        self._scheduler = scheduler
        self._now = time.time()
        self.wanted = wanted
        self.notes = notes
        """Requests in the manifests that are not checked."""

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self._scheduler.state.size

    def place(self, wanted: Wanted) -> Placement:
        """Places a pod or claim on the node that the scheduler chooses; its devices are in use from now on."""
        if wanted.missing:
            return Placement(wanted)
        bind = self._attempt(wanted)
        if bind is None:
            return Placement(wanted, answers=self.node_answers(wanted))
        placement = Placement(wanted, bind.node, mappings=bind.mappings)
        for write in bind.writes:
            stored = _written_claim(wanted, write)
            if write.allocation is not None:
                placement.allocations[key_of(stored)] = write.allocation
            self._scheduler.written(bind, write, stored, self._now)
        self._scheduler.bound(bind, self._now)
        if wanted.kind == "pod":
            bound = {**wanted.pod, "spec": {**wanted.pod["spec"], "nodeName": bind.node}}
            self._scheduler.put("Pod", bound, self._now)
        else:
            self._scheduler.remove("Pod", wanted.pod, self._now)
        return placement

    def _attempt(self, wanted: Wanted) -> Bind | None:
        """Returns the decision of one scheduling attempt; None if no node fits."""
        scheduler, now = self._scheduler, self._now
        scheduler.put("Pod", wanted.pod, now)
        queued = scheduler.queue.pop(now)
        action = scheduler.attempts.attempt(queued, now, Work()) if queued is not None else None
        if isinstance(action, Bind):
            return action
        scheduler.remove("Pod", wanted.pod, now)
        return None

    def node_answers(self, wanted: Wanted) -> NodeAnswers:
        """Returns what every node answers about a pod or claim; changes nothing."""
        pod = read(wanted.pod, self._scheduler.state.signatures)
        return NodeAnswers(self._scheduler, pod, self._now)


def _written_claim(wanted: Wanted, write: ClaimWrite) -> Object:
    """Returns the claim after the decision is written; a claim that no pod uses is not reserved."""
    status = dict(status_of(write.claim))
    if write.allocation is not None:
        status["allocation"] = write.allocation
    if wanted.kind == "pod":
        status["reservedFor"] = [*reserved_for(write.claim), write.consumer]
    name = {"name": wanted.extended_claim_name} if write.special else {}
    return {**write.claim, "metadata": {**write.claim["metadata"], **name}, "status": status}


def read_cluster(
    reading: Reading,
    policy: Policy,
    node: str,
    plugins: tuple[str, ...],
    base: Mapping[str, Sequence[Object]],
    tell: Tell,
) -> ManifestCluster:
    """Returns the cluster that the manifests describe, or only its node `node`. Raises InvalidInput.

    `base` has the objects of an existing cluster by kind, to which the manifests are added, without its waiting pods.
    """
    stored = _stored(reading)
    scheduler = make_scheduler(Options(policy=policy), plugins, tell)
    unreadable = telling_unreadable(tell)
    resources, now = scheduler.state.resources, time.time()
    if base:
        nodes = [document for document in base.get("Node", ()) if node in ("", document["metadata"]["name"])]
        fill(scheduler, {**base, "Node": nodes, "Pod": list(filter(node_of, base["Pod"]))}, now, unreadable)
    for kind in ("DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourceClaim"):
        put_readable(scheduler, kind, stored.of(kind), now, unreadable)
    nodes = stored.of("Node")
    if not nodes and not base:
        nodes = [{"metadata": {"name": name}} for name in _node_names(stored.of("ResourceSlice"))]
    unchecked = {name for workload in stored.workloads for name in unserved_resources(workload, resources)}
    _put_nodes(scheduler, nodes, node, {**DEFAULT_CAPACITY, **dict.fromkeys(unchecked, _PLENTY)}, now)
    wanted = _wanted(stored, base, resources)
    for generated in [document for wanted_pod in wanted for document in wanted_pod.claims]:
        scheduler.put("ResourceClaim", generated, now)
    cluster = ManifestCluster(scheduler, wanted, list(_notes(stored.workloads, resources)))
    if node and not cluster.size:
        raise InvalidInput([f"error: node {node} not found; give a Node, or a ResourceSlice that names it"])
    return cluster


def _stored(reading: Reading) -> Stored:
    """Returns the objects of the manifests. Raises InvalidInput."""
    if reading.problems:
        raise InvalidInput([str(problem) for problem in reading.problems])
    try:
        return read_objects(reading.manifests)
    except Unusable as unusable:
        raise InvalidInput([str(problem) for problem in unusable.problems]) from None


def _put_nodes(scheduler: Scheduler, nodes: Sequence[Object], only: str, capacity: Object, now: float) -> None:
    """Puts all nodes into the scheduler, or only one of them; the first of equally good nodes wins."""
    for position, document in enumerate(nodes):
        name = document["metadata"]["name"]
        if only in ("", name):
            scheduler.put("Node", _with_room(document, capacity), now)
            scheduler.state.ties[scheduler.state.nodes[name].number] = position


def _wanted(stored: Stored, base: Mapping[str, Sequence[Object]], resources: ResourceMap) -> list[Wanted]:
    """Returns the pods of the manifests, and then the claims that no pod uses and that are not allocated."""
    claims = {key_of(document): document for document in stored.of("ResourceClaim")}
    known_claims = {key_of(document): document for document in base.get("ResourceClaim", ())} | claims
    all_templates = (*base.get("ResourceClaimTemplate", ()), *stored.of("ResourceClaimTemplate"))
    templates = {key_of(template): template for template in all_templates}
    wanted = list(wanted_pods(stored.workloads, known_claims, templates, resources))
    used = {(unit.namespace, name) for unit in wanted for _, name in claims_used(unit.pod)}
    unused = [document for key, document in claims.items() if key not in used and not allocation_of(document)]
    return [*wanted, *map(wanted_claim, unused)]


def _with_room(node: Object, capacity: Object) -> Object:
    """Returns the node with plenty of every resource that its status does not have."""
    status = status_of(node)
    given = status.get("allocatable") or status.get("capacity") or {}
    return {**node, "status": {**status, "allocatable": {**capacity, **given}}}


def _node_names(slices: Iterable[Object]) -> list[str]:
    """Returns the names of the nodes in the slices; `node` if the slices name none."""
    names = {resource_slice["spec"].get("nodeName") for resource_slice in slices}
    devices = [device for resource_slice in slices for device in resource_slice["spec"].get("devices") or ()]
    names |= {device.get("nodeName") for device in devices}
    return sorted(name for name in names if name) or ["node"]


def _notes(workloads: Iterable[Workload], resources: ResourceMap) -> Iterator[str]:
    groups = []
    for workload in workloads:
        if names := unserved_resources(workload, resources):
            what = f"requests {', '.join(names)}, which no DeviceClass in the files provides: not checked"
            yield f"{workload.title} {what}"
        if (group := workload.group) and group not in groups:
            groups.append(group)
    if groups:
        yield f"pods of a group are placed one by one here, not together: {', '.join(groups)}"
