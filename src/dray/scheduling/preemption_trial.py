"""PreemptionTrial: the state with some pods taken away in thought, and with them their devices if that is wanted."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.objects import Key, Object, key_of
from dray.api.resource_claims import reserved_for
from dray.scheduling.model import Node, Pod
from dray.scheduling.state import State


class PreemptionTrial:
    """`own` are the claims of the pod that wants the place: what they hold it keeps, whoever else uses them."""

    def __init__(self, state: State, own: set[Key], *, for_devices: bool) -> None:
        self._state = state
        self._own = own
        self._for_devices = for_devices
        self._removed: dict[str, tuple[Pod, Node]] = {}
        self._released: dict[Key, list[Object]] = {}
        self._gone: set[str] = set()
        self._orphans: list[Object] = []

    def remove(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            node = self._state.node_of(pod)
            assert node is not None
            self._removed[pod.uid] = (pod, node)
            node.remove(pod)
            self._state.affinity.remove(pod, node)
            for claim in self._claims_of(pod):
                self._settle(claim)

    def release(self, claims: Iterable[Object]) -> None:
        """Whoever used them is gone."""
        for claim in claims:
            self._gone.update(consumers(claim))
            self._settle(claim)
            self._orphans.append(claim)

    def restore(self, pod: Pod) -> None:
        _, node = self._removed.pop(pod.uid)
        node.add(pod)
        self._state.affinity.add(pod, node)
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
        inventory, key = self._state.inventory, key_of(claim)
        if key in self._own:
            return
        if all(uid in self._removed or uid in self._gone for uid in consumers(claim)):
            results = inventory.usage.claims.get(key)
            if results is not None:
                self._released[key] = results
                inventory.follow(inventory.usage.release(key))
        elif key in self._released:
            inventory.follow(inventory.usage.hold(key, self._released.pop(key)))


def consumers(claim: Object) -> list[str]:
    """The uids of those it is reserved for."""
    return [str(each.get("uid")) for each in reserved_for(claim)]
