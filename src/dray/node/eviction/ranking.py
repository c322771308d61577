"""Order in which pods are evicted, as a kubelet's: those that use more than they asked for, then by priority, then by
how much more they use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dray.api import pod_requests
from dray.api.objects import Object, spec_of
from dray.api.pods import HASH_ANNOTATION
from dray.api.quantity import Format, Quantity
from dray.node.eviction.thresholds import DISK, INODES, PIDS, RESOURCES, Observation, Threshold

# Pods with this priority or a higher one are critical.
CRITICAL_PRIORITY = 2_000_000_000


@dataclass(frozen=True, slots=True)
class PodConsumption:
    """Consumption of a pod: bytes of memory by container, and bytes of disk."""

    pod: Object
    memory: Mapping[str, int] = field(default_factory=dict)
    disk: int = 0

    def used(self, signal: str) -> int:
        return self.disk if signal in (DISK, INODES) else sum(self.memory.values())

    def asked(self, signal: str) -> int:
        return pod_requests.requests(spec_of(self.pod)).get(RESOURCES[signal], 0)


def is_critical(pod: Object) -> bool:
    """Returns True for static pods and pods of system priority, which are never evicted."""
    annotations = pod["metadata"].get("annotations") or {}
    return HASH_ANNOTATION in annotations or (spec_of(pod).get("priority") or 0) >= CRITICAL_PRIORITY


def ranked(pods: Iterable[PodConsumption], signal: str) -> list[PodConsumption]:
    """Returns the pods in the order in which they are evicted."""

    def place(each: PodConsumption) -> tuple[bool, int, int]:
        priority = int(spec_of(each.pod).get("priority") or 0)
        if signal == PIDS:
            return False, priority, 0
        over = each.used(signal) - each.asked(signal)
        return over <= 0, priority, -over

    return sorted((consumption for consumption in pods if not is_critical(consumption.pod)), key=place)


def message(threshold: Threshold, seen: Observation, who: PodConsumption) -> str:
    """Returns the message for the pod's status and for the event."""
    resource = RESOURCES[threshold.signal]
    least, left = amount(threshold.least(seen.capacity)), amount(seen.available)
    said = f"The node was low on resource: {resource}. Threshold quantity: {least}, available: {left}. "
    for container in spec_of(who.pod).get("containers") or ():
        used = who.memory.get(container["name"], 0)
        asked = pod_requests.amounts(pod_requests.container_requests(container)).get(resource, 0)
        if resource == "memory" and used > asked:
            said += (
                f"Container {container['name']} was using {amount(used)}, request is {amount(asked)}, "
                f"has larger consumption of {resource}. "
            )
    return said


def amount(value: int) -> str:
    """Formats a number with the largest binary unit that divides it."""
    return str(Quantity(value, 0, Format.BINARY_SI))
