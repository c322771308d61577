"""Where a pod goes: the cheap questions for all nodes at once, the search for devices on the best one alone.

`decide` reads. It gives a `Placement`, which whoever asked may put into effect, or a `Refusal` that says why not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from dray.allocation import (
    ATTEMPT,
    KUBERNETES,
    Allocation,
    ChargeError,
    Policy,
    Rejection,
    Work,
    WorkExhausted,
    allocate,
    confirm,
)
from dray.allocation import Kind as RejectionKind
from dray.allocation.nearness import nearest
from dray.allocation.text import summary
from dray.api.objects import Object
from dray.scheduling import charges, faults, fit, scores
from dray.scheduling.demand import NO_DEVICES, chosen_rank
from dray.scheduling.extended import claim_for
from dray.scheduling.model import Amounts, Node, Pod
from dray.scheduling.searches import Searches
from dray.scheduling.standings import Standing, Standings
from dray.scheduling.state import State
from dray.scheduling.wishes import Wishes, allowed, releasable, usable_on

ELSEWHERE: Final = "resourceclaim not available on the node"
UNDECIDED: Final = f"node(s) undecided after {ATTEMPT:,} units of search, which goes on"
SPECIAL_NAME: Final = "<extended-resources>"
_RANK_WEIGHT: Final = 2
_NEAREST: Final = 4
"""Of so many nodes the allocator says in full what is missing."""
_MOST_EXPLAINED: Final = 64
"""With more requests nobody reads why they cannot all be served, and it takes long to find out."""
_LONGEST_TEXT: Final = 600
_ALL_ASKED: Final = 100
"""With fewer nodes than that Kubernetes asks all of them; of more it stops when it has found enough."""


@dataclass(frozen=True, slots=True)
class Special:
    """The claim for extended resources that has yet to be made, and which container gets which request."""

    claim: Object
    mappings: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    node: Node
    wishes: Wishes
    allocation: Allocation | None = None
    """Of the open claims in their order, the special one last."""
    special: Special | None = None
    extra: Amounts = field(default_factory=dict)
    charges: tuple[Object, ...] = ()
    """What the claims take from the node, as it stands in the pod's status."""


@dataclass(frozen=True, slots=True)
class Refusal:
    message: str
    fault: bool = False
    """Nobody can tell whether it fits: an error, not a lack of something."""
    nodes: frozenset[int] | None = None
    """The only nodes that come into question, because of claims that have devices already."""
    social: bool = False
    familiar: bool = False
    """Nothing changed since others like it were refused."""
    undecided: tuple[Node, ...] = ()
    """Where the search for devices was given up for lack of work; elsewhere it may go on."""


class Decider:
    def __init__(self, state: State, *, policy: Policy = KUBERNETES, weigh_devices: int = 0) -> None:
        self._state = state
        self._policy = policy
        self.work = Work()
        """What may be spent on the present attempt, over all its nodes."""
        self.standings = Standings(state, weigh_devices=weigh_devices)
        self.searches = Searches(state)
        self._undecided: dict[str, Node] = {}

    def begin(self, work: Work) -> None:
        """An attempt begins: until the next one, whatever is asked draws on this work."""
        self.work = self._state.inventory.selectors.work = work
        self._undecided = {}

    def decide(self, pod: Pod, wishes: Wishes, familiar: str = "") -> Placement | Refusal:
        """`familiar` is what was said about pods just like it, and is said again rather than found out anew."""
        state = self._state
        nominated = (pod.document.get("status") or {}).get("nominatedNodeName")
        if nominated and isinstance(kept := self._nominated(pod, wishes, nominated), Placement):
            return kept
        standing = self.standings.of(pod.needs, wishes.demand)
        here = allowed(state, wishes)
        social = state.neighbours.matters(pod)
        if standing.doubtful and (error := self.error(pod, wishes, standing)):
            return Refusal(error, fault=True)
        apart: Counter[str] = Counter()
        plain = here is None and not social and not wishes.demand.prioritised and wishes.reach is None
        if plain and not pod.needs.preferred and not state.soft_taints:
            with closing(standing.best()) as nodes:
                answer = self._first(pod, wishes, standing, nodes, apart)
        else:
            answer = self._best(pod, wishes, standing, here, apart)
        if isinstance(answer, Placement):
            return answer
        if answer is not None:
            return Refusal(answer, fault=True)
        undecided = tuple(self._undecided.values())
        if familiar:
            return Refusal(familiar, nodes=here, social=social, familiar=True, undecided=undecided)
        if here is not None:
            apart[ELSEWHERE] += len(standing.feasible - here)
        counts = standing.counts + apart
        message = self._message(wishes, standing, counts)
        failed = any(reason.startswith(faults.NODE_FAILED) for reason in counts)
        return Refusal(message, fault=failed, nodes=here, social=social, undecided=undecided)

    def to_release(self, pod: Pod, wishes: Wishes) -> Object | None:
        """A claim that keeps the pod from a node where it could be, and that nobody else uses."""
        idle = [claim for claim in wishes.fixed if releasable(self._state, claim, pod)]
        if not idle:
            return None
        for node in self._barred(pod, wishes):
            for claim in idle:
                if claim in wishes.unavailable or not usable_on(self._state, claim, node):
                    return claim
        return None

    def _barred(self, pod: Pod, wishes: Wishes) -> Iterator[Node]:
        """The nodes where nothing is in the way but claims that have devices which cannot be used there."""
        state = self._state
        here = allowed(state, wishes)
        if here is None:
            return
        standing = self.standings.of(pod.needs, wishes.demand)
        judgement = state.neighbours.judge(pod, list(state)) if state.neighbours.matters(pod) else None
        for number in sorted(standing.feasible - here, key=state.ties.__getitem__):
            node = state.numbered[number]
            assert node is not None
            if judgement is not None and judgement.obstacle(node) is not None:
                continue
            if wishes.reach is not None and wishes.reach.obstacle(node) is not None:
                continue
            if isinstance(self._settle(pod, wishes, node), Placement):
                yield node

    def _nominated(self, pod: Pod, wishes: Wishes, name: str) -> Placement | str:
        """The node that the pod's status names is asked alone and first: whoever wrote that counts on it."""
        node = self._state.nodes.get(name)
        return self.on(pod, wishes, node) if node is not None and node.document is not None else ""

    def on(self, pod: Pod, wishes: Wishes, node: Node) -> Placement | str:
        """Whether one node can take the pod, with everything that speaks for it; else why not."""
        reason = fit.standing(pod.needs, node)
        if reason is None:
            reasons = fit.room(pod.needs, {}, node, wishes.demand.served(node))
            reason = reasons[0] if reasons else None
        if reason is None and self._state.neighbours.matters(pod):
            reason = self._state.neighbours.judge(pod, list(self._state)).obstacle(node)
        if reason is None and wishes.reach is not None:
            reason = wishes.reach.obstacle(node)
        here = allowed(self._state, wishes)
        if reason is None and here is not None and node.number not in here:
            reason = ELSEWHERE
        if reason is not None:
            return reason
        answer = self._settle(pod, wishes, node)
        return answer if isinstance(answer, Placement) else answer[0]

    def error(self, pod: Pod, wishes: Wishes, standing: Standing | None = None) -> str:
        """What is wrong on one of the nodes, if anything: then nobody can say where the pod should go."""
        state = self._state
        standing = standing or self.standings.of(pod.needs, wishes.demand)
        if state.size >= _ALL_ASKED:
            return ""
        judgement = state.neighbours.judge(pod, list(state)) if state.neighbours.matters(pod) else None
        for number in sorted(standing.doubtful, key=state.ties.__getitem__):
            node = state.numbered[number]
            assert node is not None
            if judgement is not None and judgement.obstacle(node) is not None:
                continue
            if wishes.reach is not None and wishes.reach.obstacle(node) is not None:
                continue
            answer = self._settle(pod, wishes, node)
            if isinstance(answer, Placement):
                continue
            reason, fault = answer
            if fault:
                return reason
            if not wishes.fixed:
                standing.refuse(node, reason)
        return ""

    def _first(
        self, pod: Pod, wishes: Wishes, standing: Standing, nodes: Iterator[Node], apart: Counter[str]
    ) -> Placement | str | None:
        """The first of the nodes that can; a text where it cannot be told."""
        for node in nodes:
            answer = self._settle(pod, wishes, node)
            if isinstance(answer, Placement):
                return answer
            reason, fault = answer
            if fault:
                return reason
            if wishes.fixed:
                # It may be due to what the pod has already, which others of its kind have not.
                apart[reason] += 1
            else:
                standing.refuse(node, reason)
        return None

    def _best(
        self, pod: Pod, wishes: Wishes, standing: Standing, here: frozenset[int] | None, apart: Counter[str]
    ) -> Placement | str | None:
        """As `_first`, where nodes must be compared with each other. `apart` counts what only this attempt knows."""
        first = True
        while True:
            ranked = self._ranked(pod, wishes, standing, here, apart if first else Counter())
            first = False
            if not ranked:
                return None
            answer = self._first(pod, wishes, standing, iter(ranked), apart)
            if not isinstance(answer, Placement) or not wishes.demand.prioritised:
                return answer
            allocation = answer.allocation
            rank = chosen_rank(wishes.open, allocation.results[: len(wishes.open)]) if allocation else 0
            if rank >= standing.rank(answer.node):
                return answer
            # It offers less than it seemed to: another node may now be better.
            standing.lower(answer.node, rank)

    def _ranked(
        self, pod: Pod, wishes: Wishes, standing: Standing, here: frozenset[int] | None, apart: Counter[str]
    ) -> list[Node]:
        state = self._state
        # What the claims that have devices got counts too: the others differ the less by comparison.
        settled = chosen_rank(wishes.fixed, [claim["status"]["allocation"] for claim in wishes.fixed])
        numbers = standing.feasible if here is None else standing.feasible & here
        nodes = [node for number in numbers if (node := state.numbered[number]) is not None]
        if wishes.reach is not None:
            nodes = _unhindered(nodes, wishes.reach.obstacle, apart)
        totals = {node.number: standing.score(node) for node in nodes}
        if state.neighbours.matters(pod):
            judgement = state.neighbours.judge(pod, list(state))
            nodes = _unhindered(nodes, judgement.obstacle, apart)
            _add(totals, judgement.scores(nodes))
        if pod.needs.preferred or state.soft_taints:
            _add(totals, scores.preferences(pod.needs, nodes))
        best = settled + max((standing.rank(node) for node in nodes), default=0)
        if best:
            ranks = {node.number: settled + standing.rank(node) for node in nodes}
            _add(totals, {number: _RANK_WEIGHT * (rank * 100 // best) for number, rank in ranks.items()})
        return sorted(nodes, key=lambda node: (-totals[node.number], state.ties[node.number]))

    def claims_on(self, pod: Pod, wishes: Wishes, node: Node) -> tuple[list[Object], Special | None]:
        """Those that need devices of the node: open ones, and one for extended resources it has none of itself."""
        served = wishes.demand.served(node)
        if not served:
            return list(wishes.open), None
        special = _special(pod, *wishes.demand.special(served, self._state.resources))
        return [*wishes.open, special.claim], special

    def _settle(self, pod: Pod, wishes: Wishes, node: Node) -> Placement | tuple[str, bool]:
        """The devices on one node; else why not, and whether that is an error, which ends the attempt for all nodes.

        What nobody expected speaks against the one node only.
        """
        try:
            return self._settled(pod, wishes, node)
        except Exception as error:
            self._state.report(f"looking for devices on node {node.name}", error)
            return faults.on_node(error), False

    def _settled(self, pod: Pod, wishes: Wishes, node: Node) -> Placement | tuple[str, bool]:
        state = self._state
        assert node.document is not None
        claims, special = self.claims_on(pod, wishes, node)
        allocation: Allocation | None = None
        if claims:
            answer = self._allocated(wishes, node, claims)
            if isinstance(answer, tuple):
                return answer
            allocation = answer
        if not state.charging:
            return Placement(node, wishes, allocation, special)
        try:
            extra, statuses = charges.of(state.inventory, state.claims, pod, wishes, allocation)
        except charges.Unpayable as problem:
            return str(problem), False
        except ChargeError as problem:
            return str(problem), True
        reasons = fit.room(pod.needs, extra, node, wishes.demand.served(node)) if extra else ()
        if reasons:
            return reasons[0], False
        return Placement(node, wishes, allocation, special, extra, statuses)

    def _allocated(self, wishes: Wishes, node: Node, claims: Sequence[Object]) -> Allocation | tuple[str, bool]:
        """Devices for the claims; else why not, and whether that is an error."""
        inventory, document, work = self._state.inventory, node.document, self.work
        assert document is not None
        known = self.searches.known(wishes.demand, node)
        if known is not None and known.results is None:
            return known.reason, False
        # So that one node that is hard to judge leaves something for the others.
        with work.share(work.left // 2):
            if known is not None and known.results is not None:
                try:
                    proposed = confirm(inventory, document, claims, known.results, policy=self._policy, work=work)
                except WorkExhausted:
                    return UNDECIDED, False
                if proposed is not None:
                    return proposed
            answer = allocate(inventory, document, claims, policy=self._policy, work=work, explain=False)
        if isinstance(answer, Allocation):
            return answer
        if answer.kind is RejectionKind.UNDECIDED:
            self._undecided[node.name] = node
        return _reason(answer), answer.kind is RejectionKind.FAULT

    def _message(self, wishes: Wishes, standing: Standing, counts: Counter[str]) -> str:
        size = self._state.size
        if not size:
            return "no nodes available to schedule pods"
        reasons = ", ".join(sorted(f"{number} {reason}" for reason, number in counts.items()))
        message = f"0/{size} nodes are available: {reasons}."
        if NO_DEVICES in counts and wishes.open:
            message += self._devices_message(wishes, standing)
        return message

    def _devices_message(self, wishes: Wishes, standing: Standing) -> str:
        """What the allocator says about the node where least is missing, of those that lack only devices."""
        state, demand = self._state, wishes.demand
        short = [node for node in state if NO_DEVICES in standing.reasons(node)]
        if not short or demand.size > _MOST_EXPLAINED:
            return ""
        try:
            near = nsmallest(_NEAREST, short, key=lambda node: (*demand.distance(state.inventory, node), node.name))
        except WorkExhausted:
            return ""
        answers = [
            allocate(state.inventory, node.document, wishes.open, policy=self._policy, work=self.work)
            for node in near
            if node.document is not None
        ]
        found = nearest(
            answer for answer in answers if isinstance(answer, Rejection) and answer.kind is not RejectionKind.UNDECIDED
        )
        return f" {found.node}: {_shortened(summary(found))}." if found is not None else ""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _special(pod: Pod, requests: Sequence[Object], mappings: Sequence[Object]) -> Special:
    namespace, name = pod.key
    claim = claim_for((namespace, f"{SPECIAL_NAME}/{name}"), pod.uid, requests)
    return Special(claim, tuple(mappings))


def _reason(rejection: Rejection) -> str:
    if rejection.kind is RejectionKind.NO_SOLUTION:
        return NO_DEVICES
    return UNDECIDED if rejection.kind is RejectionKind.UNDECIDED else rejection.message


def _unhindered(nodes: Iterable[Node], obstacle: Callable[[Node], str | None], apart: Counter[str]) -> list[Node]:
    """Those without an obstacle; those of the others are counted."""
    found = []
    for node in nodes:
        reason = obstacle(node)
        if reason is None:
            found.append(node)
        else:
            apart[reason] += 1
    return found


def _add(totals: dict[int, int], more: dict[int, int]) -> None:
    for number, score in more.items():
        totals[number] = totals.get(number, 0) + score
