"""What one pod brings to an attempt: its claims as they are now, and what of them is still to be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.allocation import node_selectors
from dray.allocation.node_selectors import NodeSelectorError
from dray.allocation.usage import claim_key
from dray.api.objects import Object
from dray.scheduling.claim_book import MOST_CONSUMERS, ClaimBook, named_claims
from dray.scheduling.demand import Demand
from dray.scheduling.extended import wanted
from dray.scheduling.groups import PLURAL, group_name
from dray.scheduling.model import Key, Node, Pod
from dray.scheduling.readiness import Binding, allocation_of, binding_of
from dray.scheduling.state import State
from dray.scheduling.volumes import Reach

_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"
_NOTHING: Final[frozenset[str]] = frozenset()


class Hindrance(Exception):
    """It cannot be on any node. `passing`: that will be over in a moment, when a claim is written; `fault`: what would
    have to be written is refused, which Kubernetes calls an error."""

    def __init__(
        self, message: str, *, passing: bool = False, fault: bool = False, waits_for: tuple[Key, ...] = ()
    ) -> None:
        super().__init__(message)
        self.passing = passing
        self.fault = fault
        self.waits_for = waits_for


@dataclass(frozen=True, slots=True)
class Wishes:
    claims: tuple[Object, ...]
    """All of the pod's own, in its order."""
    entries: tuple[Object, ...]
    """What the pod says of each of them."""
    open: tuple[Object, ...]
    """Those that have no devices yet."""
    fixed: tuple[Object, ...]
    """Those that have."""
    unavailable: tuple[Object, ...]
    """Those whose devices did not get ready: they must be given back first."""
    demand: Demand
    leftover: Object | None
    """A claim for extended resources that an earlier attempt made: in the way of a new one."""
    crowded: str = ""
    """Which claim has as many users as a claim can have: wherever the pod fits, that cannot be written."""
    reach: Reach | None = None
    """Where its volumes can be used, if not everywhere."""


def wishes(state: State, pod: Pod, now: float, timeout: float) -> Wishes:
    """Raises Unresolved or Hindrance."""
    document = pod.document
    if (problem := state.volumes.problem(document)) is not None:
        raise Hindrance(problem[0], waits_for=problem[1])
    claims = state.claims.resolve(document) if document["spec"].get("resourceClaims") else []
    extended = wanted(document, state.resources) if pod.needs.extended else _NOTHING
    opened, fixed, unavailable, crowded = [], [], [], ""
    for claim in claims:
        if allocation_of(claim) is None:
            _check_free(state.claims, claim)
            opened.append(claim)
            continue
        crowded = crowded or _crowded(claim, pod)
        fixed.append(claim)
        if binding_of(claim, now, timeout) in (Binding.FAILED, Binding.EXPIRED):
            unavailable.append(claim)
    demand = state.demands.of(opened, extended, document, pod.needs)
    if missing := demand.missing_class(state.inventory):
        raise Hindrance(missing)
    leftover = state.claims.special(pod.uid) if extended else None
    entries = tuple(entry for entry, _ in named_claims(document)) if claims else ()
    sorts = tuple(claims), entries, tuple(opened), tuple(fixed), tuple(unavailable)
    return Wishes(*sorts, demand, leftover, crowded, state.volumes.reach(document))


def reserved(claim: Object, pod: Pod) -> bool:
    """Whether a claim is reserved for the pod, or for the group it belongs to."""
    return any(each.get("uid") == pod.uid or _is_group(each, pod) for each in _reservations(claim))


def _reservations(claim: Object) -> list[Object]:
    return (claim.get("status") or {}).get("reservedFor") or []


def _is_group(consumer: Object, pod: Pod) -> bool:
    """Whether it is the group of the pod, which it knows by name only."""
    return consumer.get("resource") == PLURAL and consumer.get("name") == group_name(pod.document)


def _check_free(book: ClaimBook, claim: Object) -> None:
    key = claim_key(claim)
    if book.assumed(key):
        raise Hindrance(f"resource claim {key[0]}/{key[1]} is in the process of being allocated", passing=True)


def _crowded(claim: Object, pod: Pod) -> str:
    consumers = claim["status"].get("reservedFor") or ()
    if len(consumers) >= MOST_CONSUMERS and not reserved(claim, pod):
        key = claim_key(claim)
        return f"resource claim {key[0]}/{key[1]} is in use by {len(consumers)} pods, and cannot be by more"
    return ""


def allowed(state: State, wishes: Wishes) -> frozenset[int] | None:
    """The nodes where all claims that have devices can be used; None where that is everywhere."""
    if wishes.unavailable:
        return frozenset()
    found: frozenset[int] | None = None
    for claim in wishes.fixed:
        here = _usable(state, claim)
        if here is not None:
            found = here if found is None else found & here
    return found


def usable_on(state: State, claim: Object, node: Node) -> bool:
    """Whether the devices that the claim has can be used there."""
    here = _usable(state, claim)
    return here is None or node.number in here


def _usable(state: State, claim: Object) -> frozenset[int] | None:
    allocation = claim["status"]["allocation"]
    selector = allocation.get("nodeSelector")
    skips = any(each.get("skipNodeOperations") for each in allocation.get("devices", {}).get("results") or ())
    if selector is None and not skips:
        return None
    if selector is not None and (name := _single(selector)):
        node = state.nodes.get(name)
        nodes = [node] if node is not None and node.document is not None else []
    else:
        nodes = [node for node in state if selector is None or _matches(selector, node)]
    return frozenset(node.number for node in nodes if not skips or _can_skip(node))


def _single(selector: Object) -> str:
    """The name of the one node that a selector for a device of a node names."""
    match selector:
        case {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} as t]
        }:
            return str(name) if not t.get("matchExpressions") else ""
    return ""


def _matches(selector: Object, node: Node) -> bool:
    try:
        return node_selectors.matches(selector, node.name, node.labels)
    except NodeSelectorError:
        return False


def _can_skip(node: Node) -> bool:
    assert node.document is not None
    return _NODE_OPERATIONS in ((node.document.get("status") or {}).get("declaredFeatures") or ())


def releasable(state: State, claim: Object, pod: Pod) -> bool:
    """Whether the devices of a claim can be given back for the pod's sake: nobody else uses them."""
    others = [each for each in _reservations(claim) if each.get("uid") != pod.uid]
    if not others:
        return True
    return all(_is_group(each, pod) for each in others) and not _is_placed(state, pod.key[0], group_name(pod.document))


def _is_placed(state: State, namespace: str, group: str) -> bool:
    """Whether a pod of the group is on a node."""
    return any(
        each.key[0] == namespace and group_name(each.document) == group
        for node in state.nodes.values()
        for each in node.pods.values()
    )
