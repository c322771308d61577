"""KaiWaiting: the amounts that waiting pods want of KAI's queues, and which queue has its next pod tried."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kai.order import TurnOrder
from dray.scheduling.quota.queue_demand import QueueDemand
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
            self.forget(pod)
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
        wanted = self._queues.wanted_next(pod) if pod.group is not None else None
        return wanted if wanted is not None else self._demand.of(job_of(pod))

    def is_entitled(self, pod: Pod) -> bool:
        """Whether other pods may be evicted for the pod: its queue stays within its share with the pod."""
        path, wanted = self._queues.tree.path(self._queues.queue_of(pod) or ""), self._wanted_next(pod)
        return bool(path) and path[0].within_share(wanted)


def job_of(pod: Pod) -> Hashable:
    """Returns the job that the pod is placed with."""
    return pod.group or pod.uid
