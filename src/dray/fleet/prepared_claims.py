"""Claims that are prepared on simulated nodes, kept as a kubelet keeps them: by node, with the pods that use them.

A claim is prepared when the first of its pods on a node starts, and unprepared when the last one has ended. What a
kubelet checks before it calls a driver is checked here, and what a driver checks too: that the devices exist, and that
no other claim has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dray.api.objects import Object, controller_uid, key_of, uid_of
from dray.api.pods import claims_used, entries_without_claim, extended_claim, group_name, node_of
from dray.api.resource_claims import allocation_of, reserved_for, results_of

Device = tuple[str, str, str]
"""(driver, pool, device name)."""

HasDevice = Callable[[str, Device], bool]
"""Whether a driver on the node publishes the device; also true of devices of pools that are not the node's."""


class PrepareError(Exception):
    """A claim cannot be prepared; the text is that of a kubelet's event."""


@dataclass(slots=True)
class _Prepared:
    uid: str
    node: str
    devices: list[Device]
    pods: set[str] = field(default_factory=set)


@dataclass(slots=True)
class PreparedClaims:
    has_device: HasDevice
    _claims: dict[tuple[str, str], _Prepared] = field(default_factory=dict)
    """Prepared claims by (node, claim uid)."""
    _devices: dict[tuple[str, Device], str] = field(default_factory=dict)
    """The claim that holds an exclusive device, by (node, device)."""
    _pods: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Keys of the prepared claims, by pod uid."""

    def __len__(self) -> int:
        return len(self._claims)

    def has(self, pod: Object) -> bool:
        return uid_of(pod) in self._pods

    def prepare(self, pod: Object, claims: list[Object]) -> None:
        """Prepares all claims of a pod, or none. Raises PrepareError."""
        node = node_of(pod)
        for claim in claims:
            self._check(pod, claim, node)
        for claim in claims:
            self.remember(pod, claim)

    def remember(self, pod: Object, claim: Object) -> None:
        """Records a prepared claim without checks, for a pod that already runs."""
        node, key = node_of(pod), (node_of(pod), uid_of(claim))
        if key not in self._claims:
            devices = [device for device, exclusive in _devices(claim) if exclusive]
            self._claims[key] = _Prepared(uid_of(claim), node, devices)
            self._devices |= {(node, device): uid_of(claim) for device in devices}
        self._claims[key].pods.add(uid_of(pod))
        used = self._pods.setdefault(uid_of(pod), [])
        if key not in used:
            used.append(key)

    def unprepare(self, pod_uid: str) -> None:
        """Removes a pod and unprepares claims that no other pod uses; does nothing for unknown pods."""
        for key in self._pods.pop(pod_uid, ()):
            prepared = self._claims[key]
            prepared.pods.discard(pod_uid)
            if not prepared.pods:
                del self._claims[key]
                for device in prepared.devices:
                    self._devices.pop((prepared.node, device), None)

    def _check(self, pod: Object, claim: Object, node: str) -> None:
        name = "/".join(key_of(claim))
        if allocation_of(claim) is None:
            raise PrepareError(f"ResourceClaim {name} is not allocated")
        users = {consumer.get("uid") for consumer in reserved_for(claim)}
        groups = {consumer.get("name") for consumer in reserved_for(claim) if consumer.get("resource") == "podgroups"}
        if uid_of(pod) not in users and group_name(pod) not in groups - {None}:
            raise PrepareError(f"pod {key_of(pod)[1]} is not allowed to use ResourceClaim {name}")
        for device, exclusive in _devices(claim):
            if not self.has_device(node, device):
                raise PrepareError(f"ResourceClaim {name}: {device[0]} has no device {device[2]} in pool {device[1]}")
            holder = self._devices.get((node, device))
            if exclusive and holder not in (None, uid_of(claim)):
                raise PrepareError(f"ResourceClaim {name}: device {device[2]} is prepared for claim {holder}")


def claims_needed(pod: Object) -> list[tuple[str, bool]]:
    """Returns the pod's claim names, and whether each was generated. Raises PrepareError if one does not exist yet."""
    if missing := next(entries_without_claim(pod), None):
        raise PrepareError(f"ResourceClaim for {missing['name']} was not created yet")
    named = [(name, bool(entry.get("resourceClaimTemplateName"))) for entry, name in claims_used(pod)]
    extended = extended_claim(pod)
    return [*named, *([(extended, True)] if extended else [])]


def check_owner(pod: Object, claim: Object) -> None:
    """Raises PrepareError if the pod does not control its generated claim and has no group."""
    if controller_uid(claim) != uid_of(pod) and not group_name(pod):
        raise PrepareError(f"ResourceClaim {'/'.join(key_of(claim))} was not created for pod {key_of(pod)[1]}")


def _devices(claim: Object) -> list[tuple[Device, bool]]:
    """Returns the allocated devices, and whether each is exclusive."""
    return [
        (
            (str(result["driver"]), str(result["pool"]), str(result["device"])),
            not result.get("shareID") and not result.get("adminAccess"),
        )
        for result in results_of(claim)
    ]
