"""Bindings: pods that are assumed on nodes, until they are bound or the binding failed.

Resources and devices of a decision are in use before anything is written. If a write fails, `failed` releases them.
"""

from __future__ import annotations

from dray.api.objects import Object, key_of
from dray.scheduling.attempts.context import Context, InFlightBinding
from dray.scheduling.attempts.pod_events import PodEvents
from dray.scheduling.cluster.claim_assume_cache import CLAIM
from dray.scheduling.model.actions import Bind, ClaimWrite
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.plugins.volume_binding import unbound_claims
from dray.scheduling.waiting.events import ObjectChanged
from dray.scheduling.waiting.queued_pods import QueuedPod


class Bindings:
    def __init__(self, context: Context, pod_events: PodEvents) -> None:
        self._context = context
        self._pod_events = pod_events

    def start(self, queued: QueuedPod, placement: Placement) -> Bind:
        """Starts the binding of a pod that is assumed on its node. Returns the action to write."""
        context, cycle, devices = self._context, placement.cycle, placement.devices
        context.in_flight[queued.pod.uid] = InFlightBinding(queued, placement)
        if context.reservations.waiting:
            context.reservations.note_placed(queued)
        context.state.queues.decided(queued.pod)
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
            self._pod_events.forget(action.pod.uid, now)

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
            self._pod_events.settle(uid, now)
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
