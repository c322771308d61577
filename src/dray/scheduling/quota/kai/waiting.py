"""KaiWaiting: the amounts that waiting pods want of KAI's queues, and which queue has its next pod tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dray.allocation.usage import ClaimKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.fair_share import dominant_share
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kai.share_tree import Amounts, ShareNode, ShareTree
from dray.scheduling.quota.queue_policy import Ask
from dray.scheduling.quota.turns import Turn, Turns

if TYPE_CHECKING:
    from dray.scheduling.quota.kai.policy import KaiQueues


class KaiWaiting:
    def __init__(self, queues: KaiQueues) -> None:
        self._queues = queues
        tree = queues.tree
        self._demand = QueueDemand(lambda queue, amounts, sign: tree.count(queue, "waiting", amounts, sign))
        self._order = TurnOrder(tree)
        self._turns = Turns(self.first)

    @property
    def revision(self) -> int:
        """The revision of the shares: with a larger share, other pods may be evicted for pods of a queue."""
        return self._queues.shares().revision if self._queues.tree else 0

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        queues = self._queues
        queue = queues.queue_of(pod)
        if queue is None:
            self._demand.remove(pod.uid)
            return None
        claims = queues.charges.costs.claims_wanted(queue, pod)
        self._demand.add(pod.uid, queue, queues.amounts(queue, pod, ()), claims, job_of(pod))
        return Turn(self._turns, queue, pod.priority)

    def forget(self, pod: Pod) -> None:
        self._demand.remove(pod.uid)

    def let_pass(self, pod: Pod) -> None:
        """Does nothing: no pod of a KAI queue holds up another."""

    def admitted(self, pod: Pod) -> None:
        """Does nothing: the amounts of the pod are charged already."""

    def sample(self, now: float) -> None:
        """Does nothing: the caller of the scheduler samples past usage."""

    def is_held_up(self, ask: Ask) -> bool:
        return False

    def first(self, heads: Mapping[str, Pod]) -> str:
        """Returns the queue whose next pod is tried; `heads` are the next pods by queue."""
        self._queues.shares()
        return self._order.first(heads, self._wanted_next)

    def _wanted_next(self, pod: Pod) -> Mapping[str, int]:
        """Returns the amounts of the pods that are placed next with the pod: those of its whole job, or of an elastic
        group those up to its minimum."""
        if pod.group is None:
            return self._demand.of(pod.uid)
        wanted = self._queues.wanted_next(pod)
        return wanted if wanted is not None else self._demand.of(pod.group)

    def is_entitled(self, pod: Pod) -> bool:
        """Whether other pods may be evicted for the pod: its queue stays within its share with the pod."""
        path, wanted = self._queues.tree.path(self._queues.queue_of(pod) or ""), self._wanted_next(pod)
        return bool(path) and path[0].within_share(wanted)


def job_of(pod: Pod) -> Hashable:
    """Returns the job that the pod is placed with."""
    return pod.group or pod.uid


Key = tuple[bool, bool, int, bool, float, float, float, str, str]
Job = Callable[[Pod], Amounts]


class TurnOrder:
    """Tells which queue of KAI has its next pod tried.

    Queues are compared at each level of the tree. These come first, in this order: queues that are not above their
    share of all resources; queues that stay within quota with the next pod; queues of higher priority; queues that use
    nothing of which they may have nothing; queues with the smaller dominant share, with the pod and then without;
    queues that may have less; older queues. The next pod of a queue with children is the next pod of its first child.
    """

    def __init__(self, tree: ShareTree) -> None:
        self._tree = tree
        self._keys: dict[str, tuple[object, Key]] = {}
        """The sort key of each queue, with the values from which it was computed."""

    def first(self, heads: Mapping[str, Pod], job: Job) -> str:
        """Returns the queue whose next pod is tried. `heads` are the next pods by queue, at least one."""
        concerned = {node for name in heads for node in self._tree.path(name)}
        found = self._first([root for root in self._tree.roots if root in concerned], concerned, heads, job)
        return found[1] if found is not None else next(iter(heads))

    def _first(
        self, nodes: Sequence[ShareNode], concerned: set[ShareNode], heads: Mapping[str, Pod], job: Job
    ) -> tuple[Key, str] | None:
        best: tuple[Key, str] | None = None
        for node in nodes:
            below = [child for child in node.children if child in concerned]
            within = self._first(below, concerned, heads, job) if below else None
            name = within[1] if within is not None else node.name
            if name in heads:
                key = self._key(node, heads[name], job)
                if best is None or key < best[0]:
                    best = key, name
        return best

    def _key(self, node: ShareNode, pod: Pod, job: Job) -> Key:
        wanted = job(pod)
        stamp = pod.uid, node.revision, self._tree.revision, id(node), tuple(wanted.values())
        known = self._keys.get(node.name)
        if known is None or known[0] != stamp:
            known = self._keys[node.name] = stamp, key(node, wanted, self._tree.capacity)
        return known[1]


def key(node: ShareNode, job: Amounts, capacity: Amounts) -> Key:
    may_have = node.may_have(capacity)
    used = {name: node.remaining(name) for name in RESOURCES}
    wanted = {name: amount + job.get(name, 0.0) for name, amount in used.items()}
    return (
        all(used[name] > node.fair.get(name, 0.0) for name in RESOURCES),
        not node.within_quota(job),
        -node.queue.priority,
        any(not may_have[name] and wanted[name] > 0 for name in RESOURCES),
        dominant_share(wanted, may_have),
        dominant_share(used, may_have),
        # The sum is smaller for a queue that may have less of one resource and not more of any other.
        sum(may_have[name] / capacity[name] for name in RESOURCES if capacity.get(name)),
        node.queue.created,
        node.name,
    )


Wanted = Mapping[str, int]
Count = Callable[[str, Wanted, int], None]


class _Waiting(NamedTuple):
    queue: str
    own: Wanted
    claims: tuple[ClaimKey, ...]
    job: Hashable


class QueueDemand:
    """The amounts that waiting pods want of their queues; a claim that several pods share counts once."""

    def __init__(self, count: Count) -> None:
        """`count` is called with each change of the demand of a queue, and its sign."""
        self._count = count
        self._waiting: dict[str, _Waiting] = {}
        """The pods that wait, by uid."""
        self._claims: dict[tuple[str, ClaimKey], tuple[Wanted, set[str]]] = {}
        """The amounts of a claim, and the uids of its waiting pods, by queue and claim."""
        self._jobs: dict[Hashable, Counter[str]] = {}
        """The amounts that the pods of a job want together."""

    def add(self, uid: str, queue: str, own: Wanted, claims: Mapping[ClaimKey, Wanted], job: Hashable) -> None:
        self.remove(uid)
        self._waiting[uid] = _Waiting(queue, own, tuple(claims), job)
        self._change(queue, job, own, 1)
        for key, amounts in claims.items():
            known = self._claims.get((queue, key))
            if known is None:
                known = self._claims[queue, key] = amounts, set()
                self._change(queue, job, amounts, 1)
            known[1].add(uid)

    def remove(self, uid: str) -> None:
        known = self._waiting.pop(uid, None)
        if known is None:
            return
        self._change(known.queue, known.job, known.own, -1)
        for key in known.claims:
            amounts, users = self._claims[known.queue, key]
            users.discard(uid)
            if not users:
                del self._claims[known.queue, key]
                self._change(known.queue, known.job, amounts, -1)

    def of(self, job: Hashable) -> Wanted:
        """Returns the amounts that pods of a job want together."""
        return self._jobs.get(job) or {}

    def _change(self, queue: str, job: Hashable, amounts: Wanted, sign: int) -> None:
        self._count(queue, amounts, sign)
        total = self._jobs.setdefault(job, Counter())
        for name, amount in amounts.items():
            total[name] += sign * amount
        if not any(total.values()):
            del self._jobs[job]
