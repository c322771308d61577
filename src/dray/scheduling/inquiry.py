"""Why a pod waits, asked of every node and in full, where a decision stops at the first good answer.

It reads the same state by the same rules as decisions do, so that what is said is what happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dray.allocation import KUBERNETES, Policy, Rejection, Work, allocate
from dray.allocation import taints as device_taints
from dray.api.objects import Object, mappings
from dray.scheduling import faults, fit
from dray.scheduling.actions import Preemption
from dray.scheduling.claim_book import Unresolved
from dray.scheduling.deciding import ELSEWHERE, Decider, Placement
from dray.scheduling.groups import group_name
from dray.scheduling.judgement import Judgement
from dray.scheduling.model import Amounts, Node, Pod
from dray.scheduling.node_terms import term_matches
from dray.scheduling.preemption import Preemptor
from dray.scheduling.state import State
from dray.scheduling.wishes import Hindrance, Wishes, allowed, wishes


@dataclass(frozen=True, slots=True)
class Shortage:
    """Of something a node has a number of."""

    resource: str
    wanted: int
    left: int
    there: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A label of a node that is not as the pod's node selector or required affinity wants it."""

    key: str
    operator: str
    values: tuple[str, ...]
    there: str | None
    """None where the node has no such label."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one node says. Without obstacles it would take the pod."""

    node: str
    obstacles: tuple[str, ...] = ()
    taints: tuple[Object, ...] = ()
    """Those that are not tolerated, where that is an obstacle."""
    shortages: tuple[Shortage, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    lacks_devices: bool = False
    """Whether it would do but for its devices; `rejection` tells why."""
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    hindrance: str = ""
    """Why no node can be asked."""
    verdicts: tuple[Verdict, ...] = ()
    preemption: Preemption | None = None
    """Who could be removed for it, if no node would take it."""
    wanted: Wishes | None = None


class Inquiry:
    def __init__(self, state: State, *, policy: Policy = KUBERNETES, budgets: Iterable[Object] = ()) -> None:
        self._state = state
        self._policy = policy
        self._decider = Decider(state, policy=policy)
        self._preemptor = Preemptor(state, self._decider)
        for budget in budgets:
            self._preemptor.put_budget(budget)

    def ask(self, pod: Pod, now: float, timeout: float) -> Answer:
        try:
            return self._ask(pod, now, timeout)
        except Exception as error:
            return Answer(f"the scheduler fails on this pod: {faults.text(error)}")

    def _ask(self, pod: Pod, now: float, timeout: float) -> Answer:
        if self._state.groups.missing(pod.document) is not None:
            return Answer(f"it waits for its PodGroup {pod.key[0]}/{group_name(pod.document)}, which does not exist")
        self._decider.begin(Work())
        try:
            wanted = wishes(self._state, pod, now, timeout)
        except (Unresolved, Hindrance) as problem:
            return Answer(str(problem))
        if wanted.crowded:
            return Answer(wanted.crowded)
        verdicts = tuple(self._verdicts(pod, wanted))
        if any(each.placement for each in verdicts) and (error := self._decider.error(pod, wanted)):
            # It keeps the pod from the other nodes too.
            return Answer(error)
        preemption = None
        if pod.preempts and not any(each.placement for each in verdicts):
            preemption = self._preemptor.find(pod, wanted)
        return Answer(verdicts=verdicts, preemption=preemption, wanted=wanted)

    def _verdicts(self, pod: Pod, wanted: Wishes) -> Iterator[Verdict]:
        state = self._state
        here = allowed(state, wanted)
        judgement = state.neighbours.judge(pod, list(state)) if state.neighbours.matters(pod) else None
        for node in sorted(state, key=lambda each: each.name):
            yield self._standing(pod, wanted, node, judgement, here) or self._devices(pod, wanted, node)

    def _standing(
        self, pod: Pod, wanted: Wishes, node: Node, judgement: Judgement | None, here: frozenset[int] | None
    ) -> Verdict | None:
        """What stands in the way apart from devices; None if nothing does."""
        reason = fit.standing(pod.needs, node)
        if reason == fit.TAINTED:
            return Verdict(node.name, (reason,), taints=tuple(_repelling(pod, node)))
        if reason == fit.UNSELECTED:
            return Verdict(node.name, (reason,), mismatches=tuple(_mismatches(pod, node)))
        if reason is not None:
            return Verdict(node.name, (reason,))
        served = wanted.demand.served(node)
        reasons = fit.room(pod.needs, {}, node, served)
        if reasons:
            return Verdict(node.name, reasons, shortages=tuple(_shortages(pod.needs.requests, node, served)))
        reason = wanted.reach.obstacle(node) if wanted.reach is not None else None
        if reason is None and judgement is not None:
            reason = judgement.obstacle(node)
        if reason is None and here is not None and node.number not in here:
            reason = ELSEWHERE
        return Verdict(node.name, (reason,)) if reason is not None else None

    def _devices(self, pod: Pod, wanted: Wishes, node: Node) -> Verdict:
        answer = self._decider.on(pod, wanted, node)
        if isinstance(answer, Placement):
            return Verdict(node.name, placement=answer)
        claims, _ = self._decider.claims_on(pod, wanted, node)
        return Verdict(node.name, (answer,), lacks_devices=bool(claims))

    def rejection(self, pod: Pod, wanted: Wishes, node: Node) -> Rejection | None:
        """What the allocator says about the claims of the pod there, in full."""
        claims, _ = self._decider.claims_on(pod, wanted, node)
        assert node.document is not None
        answer = allocate(self._state.inventory, node.document, claims, policy=self._policy)
        return answer if isinstance(answer, Rejection) else None


def _repelling(pod: Pod, node: Node) -> Iterator[Object]:
    return (each for each in device_taints.effective(node.taints) if not pod.needs.tolerations.cover(each))


def _mismatches(pod: Pod, node: Node) -> Iterator[Mismatch]:
    seen = set()
    for member, each in _demands(pod):
        if term_matches({member: [each]}, node.name, node.labels):
            continue
        key, values = str(each.get("key")), tuple(map(str, each.get("values") or ()))
        there = node.name if member == "matchFields" else node.labels.get(key)
        if (found := Mismatch(key, str(each.get("operator")), values, there)) not in seen:
            seen.add(found)
            yield found


def _demands(pod: Pod) -> Iterator[tuple[str, Object]]:
    """What node selector and required affinity say of labels and of the name, each by itself."""
    for key, value in pod.needs.selector.items():
        yield "matchExpressions", {"key": key, "operator": "In", "values": [value]}
    for term in pod.needs.required.terms if pod.needs.required is not None else ():
        for member in ("matchExpressions", "matchFields"):
            for each in mappings(term.get(member)):
                yield member, each


def _shortages(requests: Amounts, node: Node, served: frozenset[str]) -> Iterator[Shortage]:
    for name, wanted in requests.items():
        there = node.allocatable.get(name, 0)
        left = there - node.requested.get(name, 0)
        if wanted > left and name not in served:
            yield Shortage(name, wanted, left, there)
