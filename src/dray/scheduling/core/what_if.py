"""Trial: changes of the state that are tried out and taken back.

    with state.what_if() as trial:
        trial.evict(pods)          # removes the pods and the devices that only they use
        ...                        # questions now see the state without the pods
        trial.restore(pod)         # as if this pod had never been evicted

Every change is recorded in the journal with its inverse (`model.journal`). Leaving the trial takes back all remaining
changes. While a trial is open, resources that become free do not wake waiting pods. `keep` makes the changes permanent:
a reservation is a trial that is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from dray.api.objects import Key, Object, key_of
from dray.api.resource_claims import reserved_for
from dray.scheduling.model.journal import Changes
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod

if TYPE_CHECKING:
    from dray.scheduling.core.state import State

_NO_CLAIMS: Final[frozenset[Key]] = frozenset()


class Trial(Changes):
    """A trial of the state. `own` are the claims of the pods that are placed: these claims keep their devices.

    Without `for_devices`, the devices of evicted pods stay in use.
    """

    def __init__(
        self,
        state: State,
        own: Iterable[Key] = _NO_CLAIMS,
        *,
        for_devices: bool = True,
    ) -> None:
        super().__init__(state.journal)
        self._state = state
        self._outer = next((trial for trial in reversed(state.journal.trials) if isinstance(trial, Trial)), None)
        self._own = frozenset(own)
        self._for_devices = for_devices
        self._reads = state.touched.reads
        self._evicted: set[str] = set()
        self._orphans: set[Key] = set()
        """Claims whose consumers no longer exist."""
        self._released: dict[Key, list[Object]] = {}

    def keep(self) -> None:
        if self._inverses:
            self._state.pods_changed()
        super().keep()

    # Pods on nodes

    def evict(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            node = self._state.node_of(pod)
            assert node is not None
            if pod.uid not in node.pods:
                # An outer trial has evicted the pod.
                continue
            self._evicted.add(pod.uid)
            node.remove(pod)
            self._state.affinity.remove(pod, node)
            self._settle_claims(pod)
            self.record(("pod", pod.uid), partial(self._put_back, pod, node))

    def restore(self, pod: Pod) -> None:
        """Takes back the eviction of a pod, unless an outer trial evicted it."""
        if self.has(("pod", pod.uid)):
            self.take_back(("pod", pod.uid))

    def node_of(self, pod: Pod) -> Node:
        """Returns the node that an evicted pod was on."""
        node = self._state.node_of(pod)
        assert node is not None
        return node

    def _put_back(self, pod: Pod, node: Node) -> None:
        self._evicted.discard(pod.uid)
        node.add(pod)
        if self._state.touched.reads != self._reads:
            # Answers were kept for the node without the pod.
            self._state.touched.note(node.number)
        self._state.affinity.add(pod, node)
        self._settle_claims(pod)

    # Devices

    def release(self, claims: Iterable[Object]) -> None:
        """Frees the devices of claims whose consumers no longer exist."""
        for key, claim in {key_of(claim): claim for claim in claims}.items():
            self._orphans.add(key)
            self._settle(claim)
            self.record(("claim", key), partial(self._hold_again, claim))

    def hold(self, name: str, results: list[Object]) -> None:
        """Holds devices under a name, so that they count as in use, until the change is taken back."""
        inventory, key = self._state.inventory, ("", name)
        inventory.follow(inventory.usage.hold(key, results))
        self.record(("held", name), lambda: inventory.follow(inventory.usage.release(key)))

    def share(self, claims: frozenset[Key]) -> None:
        """Marks claims as shared: the allocation for one pod counts for the other pods that use the claim."""
        shared = self._state.claims.shared
        self._state.claims.share(claims)
        self.record(("shared", ""), partial(self._state.claims.share, shared))

    def _hold_again(self, claim: Object) -> None:
        self._orphans.discard(key_of(claim))
        self._settle(claim)

    def _settle_claims(self, pod: Pod) -> None:
        for claim in self._state.claims.used_by(pod.uid) if self._for_devices else ():
            self._settle(claim)

    def _settle(self, claim: Object) -> None:
        """Frees the devices of a claim if all its consumers are evicted, and holds them again if one is restored."""
        inventory, key = self._state.inventory, key_of(claim)
        if key in self._own:
            return
        if key in self._orphans or all(map(self._is_evicted, consumers(claim))):
            results = inventory.usage.claims.get(key)
            if results is not None:
                self._released[key] = results
                inventory.follow(inventory.usage.release(key))
        elif key in self._released:
            inventory.follow(inventory.usage.hold(key, self._released.pop(key)))

    def _is_evicted(self, uid: str) -> bool:
        return uid in self._evicted or (self._outer is not None and self._outer._is_evicted(uid))


def consumers(claim: Object) -> list[str]:
    """Returns the uids of the consumers that the claim is reserved for."""
    return [str(consumer.get("uid")) for consumer in reserved_for(claim)]
