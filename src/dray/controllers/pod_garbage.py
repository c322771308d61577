"""Garbage collection of pods: terminal ones beyond a number, those of deleted nodes, deleted ones that were never
bound, and those that cannot end because their node is out of service.

Where no kubelet is left to do it, such a pod is set to Failed and deleted at once.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

from dray.api.objects import Key, Object, is_deleting, is_true, spec_of, status_of
from dray.api.pods import is_terminal
from dray.client.cache import Change
from dray.client.errors import ClientError, NotFound
from dray.controllers.environment import Environment, QueueController
from dray.controllers.kinds import NODES, PODS
from dray.controllers.pod_deletion import BY_NODE, disruption, end_pod, node_of

THRESHOLD: Final = 12_500
QUARANTINE: Final = 40.0
PERIOD: Final = 20.0

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"

Work = tuple[str, str, str]
"""A queue key: ("surplus", "", ""), ("node", "", name), or a reason with a pod's namespace and name."""

_SURPLUS: Final[Work] = ("surplus", "", "")
_NODE: Final = "node"
_TERMINATED: Final = "terminated"
_UNSCHEDULED: Final = "unscheduled"
_STRANDED: Final = "out-of-service"
_ORPHANED: Final = "orphaned"


class PodGarbageCollector(QueueController[Work]):
    """`quarantine` is how long a node must be missed until its pods are lost, `period` how often surplus is counted."""

    def __init__(
        self,
        environment: Environment,
        *,
        threshold: int = THRESHOLD,
        quarantine: float = QUARANTINE,
        period: float = PERIOD,
    ) -> None:
        super().__init__(environment)
        self._threshold = threshold
        self._quarantine = quarantine
        self._period = period
        self._workers = environment.workers("pod garbage collector", self.reconcile, called=_called)
        self._terminated: set[Key] = set()
        self._out_of_service: set[str] = set()
        self._nodes = environment.informers.of(NODES)
        self._pods = environment.informers.of(PODS, {BY_NODE: node_of})
        self._deleted = Counter(
            "pod_gc_collector_force_delete_pods",
            "Pods deleted by the pod garbage collector.",
            ("namespace", "reason"),
            registry=environment.metrics,
        )
        self._failed = Counter(
            "pod_gc_collector_force_delete_pod_errors",
            "Pods that the pod garbage collector could not delete.",
            ("namespace", "reason"),
            registry=environment.metrics,
        )
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)

    def _pod_changed(self, change: Change) -> None:
        pod = change.object
        metadata = pod["metadata"]
        ending = metadata.get("deletionTimestamp")
        finished = is_terminal(pod)
        if change.type == "DELETED":
            self._terminated.discard(change.key)
            return
        if finished and not ending:
            self._terminated.add(change.key)
            if len(self._terminated) > self._threshold > 0:
                self._workers.queue.add_after(_SURPLUS, self._period)
        elif self._terminated:
            self._terminated.discard(change.key)
        node = spec_of(pod).get("nodeName")
        if node:
            if self._nodes.cache.get(node) is None:
                self._workers.queue.add_after((_NODE, "", node), self._quarantine)
            elif ending and node in self._out_of_service:
                self._workers.queue.add((_STRANDED, *change.key))
        elif ending and (not finished or metadata.get("deletionGracePeriodSeconds")):
            self._workers.queue.add((_UNSCHEDULED, *change.key))

    def _node_changed(self, change: Change) -> None:
        name = change.key[1]
        if change.type == "DELETED":
            self._out_of_service.discard(name)
            if self._pods.cache.by(BY_NODE, name):
                self._workers.queue.add_after((_NODE, "", name), self._quarantine)
        elif not is_out_of_service(change.object):
            self._out_of_service.discard(name)
        elif name not in self._out_of_service:
            self._out_of_service.add(name)
            for pod in self._pods.cache.by(BY_NODE, name):
                if pod["metadata"].get("deletionTimestamp"):
                    self._workers.queue.add((_STRANDED, pod["metadata"]["namespace"], pod["metadata"]["name"]))

    async def reconcile(self, work: Work) -> float | None:
        what, namespace, name = work
        if what == _NODE:
            return await self._bury_node(name)
        if work == _SURPLUS:
            self._pick_surplus()
            return None
        pod = self._pods.cache.get(name, namespace=namespace)
        if pod is not None and self._applies(what, pod):
            await self._delete(pod, what)
        return None

    def _applies(self, reason: str, pod: Object) -> bool:
        """Whether a pod that was picked is still to go."""
        ending = is_deleting(pod)
        node = spec_of(pod).get("nodeName")
        if reason == _TERMINATED:
            return not ending and is_terminal(pod)
        return ending and (not node if reason == _UNSCHEDULED else node in self._out_of_service)

    def _pick_surplus(self) -> None:
        """Queues terminated pods beyond the limit: evicted ones first, then the oldest."""
        surplus = len(self._terminated) - self._threshold
        if surplus <= 0:
            return
        found = [pod for key in self._terminated if (pod := self._pods.cache.get(key[1], namespace=key[0])) is not None]
        for pod in sorted(found, key=_order)[:surplus]:
            self._workers.queue.add((_TERMINATED, pod["metadata"]["namespace"], pod["metadata"]["name"]))

    async def _bury_node(self, name: str) -> float | None:
        """Deletes the pods of a missing node. Returns the seconds until the next look if the node may exist."""
        if self._nodes.cache.get(name) is not None:
            return None
        lost = self._pods.cache.by(BY_NODE, name)
        if not lost:
            return None
        try:
            await self._client.get(NODES, name)
            return self._quarantine
        except NotFound:
            pass
        failure: ClientError | None = None
        for pod in lost:
            try:
                await self._delete(pod, _ORPHANED, "PodGC: node no longer exists")
            except ClientError as error:
                failure = error
        if failure is not None:
            raise failure
        return None

    async def _delete(self, pod: Object, reason: str, message: str = "") -> None:
        status: Object = {}
        if not is_terminal(pod):
            status["phase"] = "Failed"
            if message:
                status |= disruption(pod, "DeletionByPodGC", message, self._time.now())
        namespace = pod["metadata"]["namespace"]
        try:
            if await end_pod(self._client, pod, status=status, grace=0):
                self._deleted.labels(namespace, reason).inc()
        except ClientError:
            self._failed.labels(namespace, reason).inc()
            raise


def is_out_of_service(node: Object) -> bool:
    """Returns True if the node has the out-of-service taint and is not ready."""
    taints = spec_of(node).get("taints") or ()
    if not any(taint.get("key") == OUT_OF_SERVICE for taint in taints):
        return False
    return not is_true(node, "Ready")


def _order(pod: Object) -> tuple[bool, str, str, str]:
    metadata = pod["metadata"]
    evicted = status_of(pod).get("reason") == "Evicted"
    return not evicted, metadata.get("creationTimestamp") or "", metadata["namespace"], metadata["name"]


def _called(work: Work) -> str:
    what, namespace, name = work
    if work == _SURPLUS:
        return "surplus pods"
    return f"Node {name}" if what == _NODE else f"Pod {namespace}/{name}"
