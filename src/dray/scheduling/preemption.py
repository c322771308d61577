"""Whom to remove so that a pod finds its place: for room, for ports and for devices.

On each node that comes into question all pods of lower priority are taken away in thought, with the devices that only
they use, also those that sit on other nodes but hold devices this node sees. If the pod then fits, as many as possible
are let back, the most important first; the rest are the victims. The node with the cheapest victims wins. Every step is
undone before the next node is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation.devices import DeviceID
from dray.allocation.node_selectors import NodeSelectorError
from dray.allocation.usage import claim_key
from dray.api import label_selectors
from dray.api.objects import Object
from dray.scheduling import fit
from dray.scheduling.actions import Preemption
from dray.scheduling.deciding import UNDECIDED, Decider, Placement
from dray.scheduling.model import Key, Node, Pod
from dray.scheduling.standings import Kind
from dray.scheduling.state import State
from dray.scheduling.wishes import Wishes, allowed

_FEWEST_NODES: Final = 100
# So that one more victim always counts for more than none, whatever its priority.
_OFFSET: Final = 2**31


@dataclass(frozen=True, slots=True)
class _Candidate:
    preemption: Preemption
    violations: int

    def cost(self) -> tuple[int, int, int, int]:
        priorities = [victim.priority for victim in self.preemption.victims]
        total = sum(priority + _OFFSET for priority in priorities)
        return self.violations, max(priorities, default=-_OFFSET), total, len(priorities)


class Preemptor:
    """`waits` tells whether a pod that is on no node is still there.

    Unless `for_devices`, pods are removed for room and ports only: to others their devices stay in use.
    """

    def __init__(
        self,
        state: State,
        decider: Decider,
        waits: Callable[[str], bool] = lambda _: False,
        *,
        for_devices: bool = True,
    ) -> None:
        self._state = state
        self._decider = decider
        self._waits = waits
        self._for_devices = for_devices
        self.unsettled = False
        """Whether a pod was passed over only because it is being bound."""
        self._budgets: dict[str, dict[str, Object]] = {}

    def put_budget(self, budget: Object) -> None:
        metadata = budget["metadata"]
        self._budgets.setdefault(metadata.get("namespace") or "", {})[metadata["name"]] = budget

    def remove_budget(self, budget: Object) -> None:
        metadata = budget["metadata"]
        self._budgets.get(metadata.get("namespace") or "", {}).pop(metadata["name"], None)

    def find(self, pod: Pod, wishes: Wishes) -> Preemption | None:
        """The cheapest way to make room for the pod, or None."""
        state = self._state
        here = allowed(state, wishes)
        nodes = [node for node in state if (here is None or node.number in here) and self._possible(pod, wishes, node)]
        nodes.sort(key=lambda node: state.ties[node.number])
        most = max(_FEWEST_NODES, len(nodes) // 10)
        found: list[_Candidate] = []
        for node in nodes:
            try:
                candidate = self._try(pod, wishes, node)
            except Exception as error:
                state.report(f"making room on node {node.name}", error)
                continue
            if candidate is not None:
                found.append(candidate)
                if not candidate.preemption.victims or len(found) >= most:
                    break
        if not found:
            return None
        return min(found, key=lambda each: (*each.cost(), *_latest_start(each.preemption.victims))).preemption

    def may_try(self, pod: Pod, kind: Kind, nodes: Iterable[Node]) -> bool:
        """Whether there is a point in trying again, as far as can be told cheaply: room could be made on a node."""
        needs = kind.needs
        for node in nodes:
            lower = [each for each in node.pods.values() if each.priority < pod.priority and self._state.bound(each)]
            if not lower or fit.standing(needs, node) is not None:
                continue
            served = kind.demand.served(node)
            if all(
                name in served
                or amount <= node.allocatable.get(name, 0) - node.requested.get(name, 0) + _of(lower, name)
                for name, amount in needs.requests.items()
            ):
                return True
        return False

    def _possible(self, pod: Pod, wishes: Wishes, node: Node) -> bool:
        served = wishes.demand.served(node)
        return fit.standing(pod.needs, node) is None and not fit.never_fits(pod.needs, node, ignored=served)

    def _try(self, pod: Pod, wishes: Wishes, node: Node) -> _Candidate | None:
        lower = list(self._lower(pod, node))
        orphans = self._orphans(node) if wishes.demand and self._for_devices else []
        if not lower and not orphans:
            return None
        trial = _Trial(self._state, {claim_key(claim) for claim in wishes.fixed}, for_devices=self._for_devices)
        try:
            trial.release(orphans)
            trial.remove(each for each in lower if _leaving(each))
            placement = self._decider.on(pod, wishes, node)
            if isinstance(placement, Placement):
                return _Candidate(Preemption(node.name, (), _devices(placement)), 0)
            staying = [each for each in lower if not _leaving(each)]
            trial.remove(staying)
            placement = self._decider.on(pod, wishes, node)
            if not isinstance(placement, Placement):
                return None
            spared = self._reprieve(pod, wishes, node, trial, staying)
            placement = self._decider.on(pod, wishes, node)
            if spared is None or not isinstance(placement, Placement):
                return None
            victims, violations = spared
            return _Candidate(Preemption(node.name, tuple(victims), _devices(placement)), violations)
        finally:
            trial.undo()

    def _reprieve(
        self, pod: Pod, wishes: Wishes, node: Node, trial: _Trial, lower: Sequence[Pod]
    ) -> tuple[list[Pod], int] | None:
        """Lets back whom it can, those whose removal would break a budget first; None where that stays undecided."""
        protected, free = self._split(lower)
        victims, violations = [], 0
        for group, protecting in ((protected, True), (free, False)):
            for each in sorted(group, key=_importance):
                trial.restore(each)
                answer = self._decider.on(pod, wishes, node)
                if answer == UNDECIDED:
                    return None
                if not isinstance(answer, Placement):
                    trial.remove([each])
                    victims.append(each)
                    violations += protecting
        return victims, violations

    def _split(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Those whose removal breaks a disruption budget, and the others."""
        left: dict[tuple[str, str], int] = {}
        protected: list[Pod] = []
        free: list[Pod] = []
        for pod in sorted(pods, key=_importance):
            breaks = False
            for name, budget in self._budgets.get(pod.key[0], {}).items():
                if not _covers(budget, pod):
                    continue
                key = (pod.key[0], name)
                status = budget.get("status") or {}
                left.setdefault(key, int(status.get("disruptionsAllowed") or 0))
                left[key] -= 1
                breaks = breaks or left[key] < 0
            (protected if breaks else free).append(pod)
        return protected, free

    def _lower(self, pod: Pod, node: Node) -> Iterator[Pod]:
        """Pods of lower priority on the node, or elsewhere with devices that the node sees."""
        for each in node.pods.values():
            if each.priority >= pod.priority:
                continue
            if self._state.bound(each):
                yield each
            else:
                self.unsettled = True
        for uid in self._holders(node) if self._for_devices else ():
            away = self._state.placed(uid)
            if away is None or uid in node.pods or away.priority >= pod.priority:
                continue
            if self._state.bound(away):
                yield away
            else:
                self.unsettled = True

    def _holders(self, node: Node) -> set[str]:
        """The pods anywhere that use devices which are not of one node only."""
        return {
            uid
            for device, claim in self._held(node)
            if self._state.inventory.viewers(device) is None
            for uid in _consumers(claim)
        }

    def _orphans(self, node: Node) -> list[Object]:
        """Claims with devices that the node sees, whose users are all gone: they are about to be released."""
        return [
            claim
            for _, claim in self._held(node)
            if (consumers := _reservations(claim)) and not any(map(self._is_there, consumers))
        ]

    def _is_there(self, consumer: Object) -> bool:
        """A group that has a claim keeps it, whether or not it has pods."""
        uid = str(consumer.get("uid"))
        return consumer.get("resource") != "pods" or self._state.placed(uid) is not None or self._waits(uid)

    def _held(self, node: Node) -> Iterator[tuple[DeviceID, Object]]:
        """The devices of the node that are in use, with the claims that use them."""
        state = self._state
        assert node.document is not None
        try:
            view = state.inventory.view(node.document)
        except NodeSelectorError:
            return
        for device in view.devices:
            usage = state.inventory.usage.devices.get(device.id)
            for key in usage.claims() if usage is not None else ():
                claim = state.claims.get(key)
                self.unsettled = self.unsettled or state.claims.assumed(key)
                if claim is not None:
                    yield device.id, claim


class _Trial:
    """The state with some pods taken away in thought, and with them their devices if that is what is wanted.

    `own` are the claims of the pod that wants the place: what they hold it needs, whoever else used them.
    """

    def __init__(self, state: State, own: set[Key], *, for_devices: bool) -> None:
        self._state = state
        self._own = own
        self._for_devices = for_devices
        self._removed: dict[str, tuple[Pod, Node]] = {}
        self._released: dict[tuple[str, str], list[Object]] = {}
        self._gone: set[str] = set()
        self._orphans: list[Object] = []

    def remove(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            node = self._state.node_of(pod)
            assert node is not None
            self._removed[pod.uid] = (pod, node)
            node.remove(pod)
            self._state.neighbours.remove(pod, node)
            for claim in self._claims_of(pod):
                self._settle(claim)

    def release(self, claims: Iterable[Object]) -> None:
        """Whoever used them is gone."""
        for claim in claims:
            self._gone.update(_consumers(claim))
            self._settle(claim)
            self._orphans.append(claim)

    def restore(self, pod: Pod) -> None:
        _, node = self._removed.pop(pod.uid)
        node.add(pod)
        self._state.neighbours.add(pod, node)
        for claim in self._claims_of(pod):
            self._settle(claim)

    def _claims_of(self, pod: Pod) -> list[Object]:
        return self._state.claims.used_by(pod.uid) if self._for_devices else []

    def undo(self) -> None:
        for pod, _ in list(self._removed.values()):
            self.restore(pod)
        self._gone.clear()
        for claim in self._orphans:
            self._settle(claim)

    def _settle(self, claim: Object) -> None:
        """A claim's devices are free when nobody is left who uses it."""
        inventory, key = self._state.inventory, claim_key(claim)
        if key in self._own:
            return
        if all(uid in self._removed or uid in self._gone for uid in _consumers(claim)):
            results = inventory.usage.claims.get(key)
            if results is not None:
                self._released[key] = results
                inventory.follow(inventory.usage.release(key))
        elif key in self._released:
            inventory.follow(inventory.usage.hold(key, self._released.pop(key)))


def _devices(placement: Placement) -> tuple[Object, ...]:
    results = placement.allocation.results if placement.allocation is not None else ()
    return tuple(each for result in results for each in result["devices"].get("results") or ())


def _of(pods: Iterable[Pod], resource: str) -> int:
    return sum(each.needs.requests.get(resource, 0) + each.extra.get(resource, 0) for each in pods)


def _consumers(claim: Object) -> list[str]:
    return [str(each.get("uid")) for each in _reservations(claim)]


def _reservations(claim: Object) -> list[Object]:
    return (claim.get("status") or {}).get("reservedFor") or []


def _leaving(pod: Pod) -> bool:
    return bool(pod.document["metadata"].get("deletionTimestamp"))


def _importance(pod: Pod) -> tuple[int, str]:
    """In ascending order the most important first: by priority, then who has been running longest."""
    return -pod.priority, _start(pod)


def _start(pod: Pod) -> str:
    return str((pod.document.get("status") or {}).get("startTime") or pod.created)


def _latest_start(victims: Sequence[Pod]) -> tuple[int, ...]:
    """Of equally cheap victims those that started last: ordered by the digits of the earliest of them, falling."""
    if not victims:
        return ()
    highest = max(victim.priority for victim in victims)
    earliest = min(_start(victim) for victim in victims if victim.priority == highest)
    return tuple(-ord(letter) for letter in earliest)


def _covers(budget: Object, pod: Pod) -> bool:
    selector = budget["spec"].get("selector")
    # A pod whose disruption was granted already is counted there.
    if pod.key[1] in ((budget.get("status") or {}).get("disruptedPods") or {}):
        return False
    return selector is not None and label_selectors.from_object(selector)(pod.labels)
