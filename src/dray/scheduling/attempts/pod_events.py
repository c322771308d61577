"""PodEvents: handles pods that are created, changed, bound or deleted: adds them to the queue or to their node.

Resources and devices of a decision are in use before anything is written (`start_binding`). If a write fails, `failed`
releases them.
"""

from __future__ import annotations

from dray.api import pod_queues
from dray.api.objects import Object, key_of
from dray.api.pods import is_terminal, node_of, phase_of
from dray.scheduling.attempts.context import Context, InFlightBinding
from dray.scheduling.cluster.claim_assume_cache import CLAIM
from dray.scheduling.core import pods
from dray.scheduling.groups.front_ends import group_of
from dray.scheduling.groups.groups import reference
from dray.scheduling.model.actions import Bind, ClaimWrite
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.plugins.volume_binding import unbound_claims
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue
from dray.scheduling.waiting.wait_index import POD_BOUND, ObjectChanged, PodsReady


class PodEvents:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._state = context.state
        self._queue = context.queue
        self._nominations = context.nominations
        self._reservations = context.reservations

    def put(self, document: Object, now: float) -> None:
        metadata, node = document["metadata"], node_of(document)
        if is_terminal(document) or (metadata.get("deletionTimestamp") and not node):
            self._remove(metadata["uid"], now)
            if phase_of(document) == "Succeeded" and group_of(document) is not None:
                pod = pods.read(document, self._state.signatures)
                self._state.groups.succeeded(pod)
                self._joined(pod, now)
        elif node:
            self._put_assigned(document, node, now)
        elif (document["spec"].get("schedulerName") or "default-scheduler") == self._context.options.name:
            self._put_pending(document, now)

    def remove(self, document: Object, now: float) -> None:
        uid = document["metadata"]["uid"]
        self._remove(uid, now)
        if (group := group_of(document)) is not None:
            self._state.groups.pod_removed(group, uid)

    def _read(self, document: Object, known: Pod | None = None) -> Pod:
        pod = pods.read(document, self._state.signatures, known)
        if pod.group is not None:
            pod.prioritize(self._state.groups.priority_of(pod))
        return pod

    def _put_assigned(self, document: Object, node: str, now: float) -> None:
        uid = document["metadata"]["uid"]
        known = self._state.placed(uid)
        if known is None:
            binding = self._context.in_flight.get(uid)
            admission = pod_queues.recorded(document)
            if admission is not None:
                document = pod_queues.with_words(document, admission.words)
            pod = binding.queued.pod if binding is not None else self._read(document)
            pod.admit(document, admission.queues if admission is not None else {})
            self._assign(pod, node, now)
            if binding is None:
                # Pods with nominations on the node did not know of this pod.
                kept = [uid for uid, place in self._nominations.places() if place == node]
                self._context.waits.wake(PodsReady(kept), now)
                self._joined(pod, now)
            return
        before = self._state.node_of(known)
        assert before is not None
        document = _as_admitted(document, known) if known.joins else document
        fresh = self._read(document, known)
        changed = fresh.requirements is not known.requirements or pods.outward(fresh) != pods.outward(known)
        if before.name != node or changed:
            fresh.admit(document, known.admitted)
            self._state.replace(known, fresh, node)
            self.settle(uid, now)
        else:
            known.update(document)
            if fresh.priority != known.priority:
                known.prioritize(fresh.priority)
            if known.joins:
                self._state.queues.admit(known)
            if document["metadata"].get("deletionTimestamp"):
                self._state.queues.mark_ending(uid)
            self.settle(uid, now)

    def _assign(self, pod: Pod, node: str, now: float) -> None:
        self._state.place(pod, node)
        self.settle(pod.uid, now)

    def settle(self, uid: str, now: float) -> None:
        """Removes a pod that is bound from the queue, and drops its nomination."""
        self._context.waits.wake(POD_BOUND, now)
        if uid not in self._context.in_flight:
            self.forget(uid, now)
        self._nominations.drop(uid)

    def forget(self, uid: str, now: float) -> None:
        """Removes a pod that does not wait any more."""
        queued = self._queue.remove(uid, now)
        if queued is None:
            return
        if queued.subqueue is not SubQueue.IN_FLIGHT:
            self._context.waits.objects.remove(uid)
        if queued.reported is not None:
            self._context.reasons.forget(uid)
        if queued.subqueue is SubQueue.GATED:
            self._context.gate_reports.remove(uid)
        self._reservations.pod_removed(queued.pod)
        if queued.pod.joins:
            short = self._state.groups.forget(queued.pod)
            self._state.queues.forget(queued.pod)
            self._context.waits.forget_quota(uid)
            if short is not None:
                # The remaining pods wait for further pods of the group, not for a place or their turn.
                self._reservations.forget(short.key)
                self._context.waits.wake(ObjectChanged(reference(short.key)), now)

    def _put_pending(self, document: Object, now: float) -> None:
        uid = document["metadata"]["uid"]
        queued = self._queue.get(uid)
        if queued is None:
            if self._state.placed(uid) is not None:
                # The event is outdated: the pod is bound or assumed already.
                return
            queued = self._queue.add(self._read(document), now)
            if queued.pod.joins:
                self._state.groups.wait(queued.pod)
                self._joined(queued.pod, now)
        else:
            if uid in self._context.in_flight:
                document = _as_admitted(document, queued.pod)
            pod = self._read(document, queued.pod)
            if uid in self._context.in_flight or pods.is_unchanged(queued.pod, pod, self._state.affinity):
                self._state.reread(queued.pod, document)
                if queued.subqueue is not SubQueue.GATED:
                    return
            else:
                self._state.groups.forget(queued.pod)
                self._queue.replace(queued, pod)
                self._state.groups.wait(pod)
                self._joined(pod, now)
        self._context.enqueue(queued, now)

    def _remove(self, uid: str, now: float) -> None:
        # A binding in flight is kept until its end is known: its devices may be written already.
        self.forget(uid, now)
        self._state.unknown_kinds.forget(uid)
        self._nominations.drop(uid)
        placed = self._state.placed(uid)
        if placed is not None:
            node = self._state.node_of(placed)
            assert node is not None
            self._state.displace(placed, node.name)

    def _joined(self, pod: Pod, now: float) -> None:
        """Wakes the pods that waited for their group to have all its pods, which it may have with this one."""
        completed = self._state.groups.completed(pod)
        if completed is not None:
            self._context.waits.wake(ObjectChanged(completed), now)

    # Bindings

    def start_binding(self, queued: QueuedPod, placement: Placement) -> Bind:
        """Starts the binding of a pod that is assumed on its node. Returns the action to write."""
        context, cycle, devices = self._context, placement.cycle, placement.devices
        context.in_flight[queued.pod.uid] = InFlightBinding(queued, placement)
        if context.reservations.waiting:
            context.reservations.note_placed(queued)
        if queued.pod.joins:
            context.state.queues.decided(queued.pod)
        # The pod waits for nothing while it is being bound, not for its own claims either.
        context.waits.objects.remove(queued.pod.uid)
        context.queue.start_binding(queued, cycle.now)
        return Bind(
            queued.pod,
            placement.node.name,
            context.devices.writes(cycle),
            cycle.claims.claims,
            devices.extended.mappings if devices.extended is not None else (),
            devices.node_allocatable,
            unbound_claims(cycle),
        )

    def written(self, write: ClaimWrite, claim: Object, now: float) -> None:
        """Notes that a claim was written; `claim` is the answer of the server."""
        key, placeholder = key_of(claim), key_of(write.claim)
        if placeholder != key and write.allocation is not None:
            # The placeholder is forgotten first, since both claims hold the same shares.
            self._context.state.claims.forget(placeholder, write.allocation)
        self._context.state.claims.confirm(key, claim)
        self._context.waits.wake(ObjectChanged(ObjectRef(CLAIM, *key)), now)

    def bound(self, action: Bind, now: float) -> None:
        binding = self._context.in_flight.pop(action.pod.uid, None)
        if binding is not None:
            self._unreserve(binding, now)
            self.forget(action.pod.uid, now)

    def failed(self, action: Bind, now: float) -> None:
        """Notes that the pod was not bound, as far as is known. The pod is tried again after a backoff."""
        context, uid = self._context, action.pod.uid
        binding = context.in_flight.pop(uid, None)
        if binding is None:
            return
        self._unreserve(binding, now)
        for write in action.writes:
            # Other pods may wait for a claim that the pod was to use.
            context.waits.wake(ObjectChanged(ObjectRef(CLAIM, *key_of(write.claim))), now)
        # The report about the pod is now about this failure.
        context.reasons.report(binding.queued, None)
        placed = context.state.placed(uid)
        if placed is not None and placed.is_assigned:
            # Another client bound the pod, or the answer of the binding was lost.
            self.settle(uid, now)
            return
        context.state.displace(binding.queued.pod, action.node)
        context.queue.retry(binding.queued, now)
        if context.queue.get(uid) is not None:
            context.queue.take_turn(
                binding.queued, context.state.queues.wait(binding.queued.pod, binding.queued.arrival)
            )
            if action.claims:
                context.waits.objects.set(uid, tuple(ObjectRef(CLAIM, *key_of(claim)) for claim in action.claims))

    def _unreserve(self, binding: InFlightBinding, now: float) -> None:
        """Releases what was reserved and not written. The pod itself stays assumed on its node."""
        for freed in self._context.framework.unreserve(binding.placement.cycle, binding.placement.node):
            # Pods that share a claim may wait for its allocation.
            self._context.waits.wake(ObjectChanged(freed), now)


def _as_admitted(document: Object, known: Pod) -> Object:
    """Returns the pod with the labels and annotations about its queue and group that it had when it was placed."""
    words = pod_queues.words_of(known.document)
    return pod_queues.with_words(document, words) if words else document
