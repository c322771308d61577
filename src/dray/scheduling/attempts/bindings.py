"""Bindings: pods that have their place, from the decision until it is known whether it could be written.

What a decision takes is in use before anything is written. If the write fails, `failed` gives it back.
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
        """Takes a pod that is assumed on its node out of the queue. Returns what is to be written."""
        context, cycle, devices = self._context, placement.cycle, placement.devices
        context.in_flight[queued.pod.uid] = InFlightBinding(queued, placement)
        if context.reservations.waiting:
            context.reservations.went_past(queued)
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
        """A claim was written; `claim` is what the server answered."""
        key, placeholder = key_of(claim), key_of(write.claim)
        if placeholder != key and write.allocation is not None:
            # First, as both hold the same shares.
            self._context.state.claims.forget(placeholder, write.allocation)
        self._context.state.claims.confirm(key, claim)
        self._context.waits.wake(ObjectChanged(ObjectRef(CLAIM, *key)), now)

    def bound(self, action: Bind, now: float) -> None:
        binding = self._context.in_flight.pop(action.pod.uid, None)
        if binding is not None:
            self._unreserve(binding, now)
            self._pod_events.forget(action.pod.uid, now)

    def failed(self, action: Bind, now: float) -> None:
        """The pod was not bound, as far as is known. It is tried again after a while."""
        context, uid = self._context, action.pod.uid
        binding = context.in_flight.pop(uid, None)
        if binding is None:
            return
        self._unreserve(binding, now)
        for write in action.writes:
            # Others may have been kept from a claim that it was to use.
            context.waits.wake(ObjectChanged(ObjectRef(CLAIM, *key_of(write.claim))), now)
        # What is reported of the pod now is about this failure.
        context.reasons.report(binding.queued, None)
        placed = context.state.placed(uid)
        if placed is not None and placed.is_assigned:
            # Somebody bound it, or the answer that said so was lost.
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
        """Frees what was reserved and not written. The pod itself stays assumed on its node."""
        for freed in self._context.framework.unreserve(binding.placement.cycle, binding.placement.node):
            # Others may have waited to see where it gets its devices.
            self._context.waits.wake(ObjectChanged(freed), now)
