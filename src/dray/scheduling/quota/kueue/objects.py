"""KueueObjects: the objects of Kueue that the scheduler knows, and answers that depend on several of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dray.api.objects import Key, Object, bounded, key_of, mapping, mappings
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.model.journal import Journal
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.quota.kueue import kinds as kueue
from dray.scheduling.quota.kueue.fair_preemption import STRATEGIES
from dray.scheduling.quota.kueue.flavors import Flavors
from dray.scheduling.quota.kueue.kinds import ClusterQueue, LocalQueue
from dray.scheduling.quota.quota_tree import QuotaTree


def ignored(kind: str, document: Object) -> Iterator[str]:
    """Yields the fields of an object that have no effect here."""
    if kind == "ClusterQueue":
        yield from kueue.cluster_queue(document).ignored
    chosen = kueue.strategies(document) if kind == "Cohort" else ()
    if chosen and chosen not in STRATEGIES:
        yield f"the annotation {kueue.STRATEGIES}: {', '.join(chosen)}"


class KueueObjects:
    def __init__(self, topologies: Topologies, journal: Journal) -> None:
        self.tree = QuotaTree(journal)
        self.flavors = Flavors(self.tree, topologies)
        topologies.find_by_queue(self._topologies_of)
        self._cluster_queues: dict[str, ClusterQueue] = {}
        self._local_queues: dict[Key, LocalQueue] = {}
        self._priorities: dict[str, int] = {}
        """The values of WorkloadPriorityClasses, by name."""
        self._strategies: dict[str, tuple[str, ...]] = {}
        """The preemption strategies of fair sharing, by cohort."""
        self._fair_cohorts: set[str] = set()
        self._fair: set[str] | None = None
        """The roots of the trees with fair sharing; None if not computed since the last change."""

    def put(self, kind: str, document: Object) -> None:
        name = document["metadata"]["name"]
        spec = mapping(document.get("spec"))
        if kind == "ResourceFlavor":
            self.flavors.put(name, kueue.flavor(document))
        elif kind == "LocalQueue":
            self._local_queues[key_of(document)] = kueue.local_queue(document)
        elif kind == "WorkloadPriorityClass":
            self._priorities[name] = bounded(document.get("value"), INT32_MIN, INT32_MAX)
        elif kind == "Cohort":
            quotas = kueue.quotas(mappings(spec.get("resourceGroups")))
            self.tree.put_cohort(name, quotas, str(spec.get("parentName") or ""), kueue.weight(spec))
            self._strategies[name] = kueue.strategies(document)
            (self._fair_cohorts.add if "fairSharing" in spec else self._fair_cohorts.discard)(name)
        else:
            queue = self._cluster_queues[name] = kueue.cluster_queue(document)
            self.tree.put_queue(name, queue.quotas, queue.cohort, queue.weight)
        self._fair = None

    def remove(self, kind: str, document: Object) -> None:
        name = document["metadata"]["name"]
        if kind == "ResourceFlavor":
            self.flavors.remove(name)
        elif kind == "LocalQueue":
            self._local_queues.pop(key_of(document), None)
        elif kind == "WorkloadPriorityClass":
            self._priorities.pop(name, None)
        elif kind == "Cohort":
            self.tree.remove_cohort(name)
            self._strategies.pop(name, None)
            self._fair_cohorts.discard(name)
        else:
            self._cluster_queues.pop(name, None)
            self.tree.remove_queue(name)
        self._fair = None

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        return self._cluster_queues.get(name)

    def cluster_queues(self) -> Mapping[str, ClusterQueue]:
        return self._cluster_queues

    def local_queues(self) -> Mapping[Key, LocalQueue]:
        return self._local_queues

    def is_fair(self, root: str) -> bool:
        """Whether queues below the root share fairly: one of them, or a cohort of the tree, has a field
        `fairSharing`."""
        if self._fair is None:
            queues = self._cluster_queues.values()
            self._fair = {self.tree.root(queue.name) for queue in queues if queue.fair}
            self._fair.update(self.tree.root_of_cohort(cohort) for cohort in self._fair_cohorts)
        return root in self._fair

    def cluster_queue_of(self, pod: Pod) -> ClusterQueue | None:
        """Returns the queue that admitted a pod on a node, even if its LocalQueue changed; otherwise the queue of its
        LocalQueue."""
        if pod.admitted and (admitted := self._cluster_queues.get(pod.admitted_to(kueue.QUEUE_LABEL))) is not None:
            return admitted
        local = self._local_queues.get((pod.key[0], pod.labels.get(kueue.QUEUE_LABEL, "")))
        return self._cluster_queues.get(local.cluster_queue) if local is not None else None

    def _topologies_of(self, local: Key) -> tuple[str, ...]:
        """Returns the topologies of the flavors that pods of a LocalQueue may get."""
        known = self._local_queues.get(local)
        queue = self._cluster_queues.get(known.cluster_queue) if known is not None else None
        return self.flavors.topologies_of(queue) if queue is not None else ()

    def priority(self, pod: Pod) -> int:
        if not self._priorities:
            return pod.priority
        return self._priorities.get(pod.labels.get(kueue.PRIORITY_LABEL, ""), pod.priority)

    def inactive(self, queue: ClusterQueue) -> Reason | None:
        """Returns why the queue admits no pods; None if it admits pods, or is only stopped."""
        if (flavor := self.flavors.missing(queue)) is not None:
            return Reason(Code.QUEUE_NOT_FOUND, (f"ResourceFlavor {flavor}", self.flavors.similar(flavor)))
        if (topology := self.flavors.missing_topology(queue)) is not None:
            return Reason(Code.TOPOLOGY_NOT_FOUND, (f"Topology {topology}",))
        if queue.checks:
            return Reason(Code.QUEUE_CHECKS, (queue.name, ", ".join(queue.checks)))
        if self.tree.has_cycle(queue.name):
            return Reason(Code.QUEUE_CYCLE, (queue.name,))
        return None

    def has_idle_weight(self, local: Key) -> bool:
        """Whether the weight of a LocalQueue has no effect, since its ClusterQueue has no usage-based admission."""
        known = self._local_queues.get(local)
        queue = self._cluster_queues.get(known.cluster_queue) if known is not None else None
        return known is not None and known.weight != 1.0 and queue is not None and not queue.by_usage

    def strategies(self, root: str) -> tuple[str, ...]:
        """Returns the preemption strategies of fair sharing below a root."""
        chosen = self._strategies.get(root, ())
        return chosen if chosen in STRATEGIES else STRATEGIES[-1]

    def drains(self) -> bool:
        """Whether the running pods of at least one queue have to be evicted (stopPolicy HoldAndDrain)."""
        queues, local = self._cluster_queues.values(), self._local_queues.values()
        return any(queue.drains for queue in queues) or any(queue.drains for queue in local)
