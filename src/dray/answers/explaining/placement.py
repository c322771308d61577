"""Manifests as a small cluster in the scheduler's core, which places its pods and claims one after the other.

Nodes, slices, classes, taint rules and allocated claims make up the cluster; without Node objects, the nodes that
slices name. Pods come first, then claims that no pod uses, in the order of the files. Of equally good nodes the first
is chosen, and what a pod or claim got is in use for those after it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dray.allocation import Policy, Work
from dray.answers.asked_schedulers import asked_scheduler
from dray.answers.explaining.explanation_trees import NodeAnswers
from dray.answers.manifests.reading import Manifest
from dray.answers.manifests.stored import read_objects
from dray.answers.manifests.wanted import Wanted, Workload, claim, pods, unserved
from dray.answers.readable_objects import telling_unreadable
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
_EMPTY: Mapping[str, Sequence[Object]] = {}


@dataclass(slots=True)
class Placement:
    """What became of one: the node and what its claims got, or what each node said."""

    wanted: Wanted
    node: str = ""
    allocations: dict[Key, Object] = field(default_factory=dict)
    mappings: tuple[Object, ...] = ()
    """Which container gets which extended resource from which request of the claim for those."""
    answers: NodeAnswers | None = None

    @property
    def fits(self) -> bool:
        return bool(self.node)


class Cluster:
    def __init__(self, scheduler: Scheduler, wanted: list[Wanted], notes: list[str]) -> None:
        self._scheduler = scheduler
        self._now = time.time()
        self.wanted = wanted
        self.notes = notes
        """What the manifests ask for and is not looked at."""

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self._scheduler.state.size

    def place(self, wanted: Wanted) -> Placement:
        """On the node that the scheduler chooses, where its devices are in use from now on."""
        if wanted.missing:
            return Placement(wanted)
        bind = self._attempt(wanted)
        if bind is None:
            return Placement(wanted, answers=self.ask(wanted))
        placement = Placement(wanted, bind.node, mappings=bind.mappings)
        for write in bind.writes:
            stored = _written(wanted, write)
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
        scheduler, now = self._scheduler, self._now
        scheduler.put("Pod", wanted.pod, now)
        queued = scheduler.queue.pop(now)
        action = scheduler.attempts.attempt(queued, now, Work()) if queued is not None else None
        if isinstance(action, Bind):
            return action
        scheduler.remove("Pod", wanted.pod, now)
        return None

    def ask(self, wanted: Wanted) -> NodeAnswers:
        """What every node says of it; nothing is changed."""
        pod = read(wanted.pod, self._scheduler.state.signatures)
        return NodeAnswers(self._scheduler, pod, self._now)


def _written(wanted: Wanted, write: ClaimWrite) -> Object:
    """The claim as it stands once the decision is written; one by itself is reserved for nobody."""
    status = dict(status_of(write.claim))
    if write.allocation is not None:
        status["allocation"] = write.allocation
    if wanted.kind == "pod":
        status["reservedFor"] = [*reserved_for(write.claim), write.consumer]
    name = {"name": wanted.special_name} if write.special else {}
    return {**write.claim, "metadata": {**write.claim["metadata"], **name}, "status": status}


def read_cluster(
    manifests: Sequence[Manifest],
    policy: Policy,
    node: str,
    plugins: tuple[str, ...],
    tell: Tell,
    base: Mapping[str, Sequence[Object]] = _EMPTY,
) -> Cluster:
    """The cluster that the manifests describe, or only `node` of it; raises Unusable.

    `base` has the objects of a cluster that the manifests are added to, by kind. Its pods that wait are left out.
    """
    stored = read_objects(manifests)
    scheduler = asked_scheduler(Options(policy=policy), plugins, tell)
    unreadable = telling_unreadable(tell)
    state, now = scheduler.state, time.time()
    if base:
        known = [each for each in base.get("Node", ()) if node in ("", each["metadata"]["name"])]
        fill(scheduler, {**base, "Node": known, "Pod": list(filter(node_of, base["Pod"]))}, now, unreadable)
    for kind in ("DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourceClaim"):
        put_readable(scheduler, kind, stored.of(kind), now, unreadable)
    not_looked_at = {name for each in stored.workloads for name in unserved(each, state.resources)}
    capacity = {**DEFAULT_CAPACITY, **dict.fromkeys(not_looked_at, _PLENTY)}
    nodes = stored.of("Node")
    if not nodes and not base:
        nodes = [{"metadata": {"name": name}} for name in _named(stored.of("ResourceSlice"))]
    for position, each in enumerate(nodes):
        name = each["metadata"]["name"]
        if node in ("", name):
            scheduler.put("Node", _with_room(each, capacity), now)
            state.ties[state.nodes[name].number] = position
    claims = {key_of(each): each for each in stored.of("ResourceClaim")}
    known_claims = {key_of(each): each for each in base.get("ResourceClaim", ())} | claims
    both = (*base.get("ResourceClaimTemplate", ()), *stored.of("ResourceClaimTemplate"))
    templates = {key_of(each): each for each in both}
    wanted = list(pods(stored.workloads, known_claims, templates, state.resources))
    for generated in [made for each in wanted for made in each.claims]:
        scheduler.put("ResourceClaim", generated, now)
    used = {(each.namespace, name) for each in wanted for _, name in claims_used(each.pod)}
    wanted += [claim(each) for key, each in claims.items() if key not in used and not allocation_of(each)]
    return Cluster(scheduler, wanted, list(_notes(stored.workloads, state.resources)))


def _with_room(node: Object, capacity: Object) -> Object:
    """The node with plenty of what its status does not speak of."""
    status = status_of(node)
    given = status.get("allocatable") or status.get("capacity") or {}
    return {**node, "status": {**status, "allocatable": {**capacity, **given}}}


def _named(slices: Iterable[Object]) -> list[str]:
    """The nodes that slices name, for want of Node objects; one without a name of its own where there are none."""
    names = {each["spec"].get("nodeName") for each in slices}
    names |= {device.get("nodeName") for each in slices for device in each["spec"].get("devices") or ()}
    return sorted(name for name in names if name) or ["node"]


def _notes(workloads: Iterable[Workload], resources: ResourceMap) -> Iterator[str]:
    groups = []
    for each in workloads:
        if names := unserved(each, resources):
            what = f"requests {', '.join(names)}, which no DeviceClass in the files provides: not checked"
            yield f"{each.title} {what}"
        if (group := each.group) and group not in groups:
            groups.append(group)
    if groups:
        yield f"pods of a group are placed one by one here, not together: {', '.join(groups)}"
