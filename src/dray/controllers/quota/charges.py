"""What an object takes, by the names that quotas use. Amounts are in nanos, as quantities count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from dray.api.quantity import Format, Quantity
from dray.client.clock import moment
from dray.scheduling.requests import requests
from dray.server.quota_usage import devices

Object = dict[str, Any]

UNIT: Final = 10**9
_MILLI: Final = 10**6
_EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
# Named with and without `requests.`, and with `limits.`.
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")


OVER: Final[Counter[str]] = Counter({"count/pods": UNIT})
"""A pod that has ended is still an object, but takes nothing any more."""


def of_pod(pod: Object) -> Counter[str]:
    """While it is not over."""
    found: Counter[str] = Counter({"count/pods": UNIT, "pods": UNIT})
    spec = pod["spec"]
    for name, amount in requests(spec).items():
        nanos = amount * (_MILLI if name == "cpu" else UNIT)
        found[f"requests.{name}"] += nanos
        if name in _COMPUTE or name.startswith("hugepages-"):
            found[name] += nanos
    for name, amount in requests(_limits_as_requests(spec)).items():
        if name in _COMPUTE:
            found[f"limits.{name}"] += amount * (_MILLI if name == "cpu" else UNIT)
    return found


def is_over(pod: Object, now: datetime) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    end = end_of_grace(pod)
    return end is not None and now > end


def end_of_grace(pod: Object) -> datetime | None:
    """When a pod that is being deleted should be gone, whether or not its node still answers."""
    metadata = pod["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds") is None:
        return None
    return moment(metadata["deletionTimestamp"]) + timedelta(seconds=metadata["deletionGracePeriodSeconds"])


def _limits_as_requests(spec: Object) -> Object:
    """The pod as if it asked for its limits: they add up in the same way. Overhead comes only on top of a limit."""
    turned: Object = {
        member: [_turned(container) for container in spec.get(member) or ()]
        for member in ("containers", "initContainers")
    }
    turned["resources"] = _turned(spec)["resources"]
    limited = requests(turned)
    overhead = {name: amount for name, amount in (spec.get("overhead") or {}).items() if name in limited}
    return {**turned, "overhead": overhead}


def _turned(holder: Object) -> Object:
    limits = (holder.get("resources") or {}).get("limits") or {}
    return {"restartPolicy": holder.get("restartPolicy"), "resources": {"requests": limits}}


def of_claim(claim: Object, extended_name: Callable[[str], str | None], pod: Object | None) -> Counter[str]:
    """`pod` is the one for whose extended resources the claim was made: what it is charged for is not charged twice."""
    found: Counter[str] = Counter({"count/resourceclaims.resource.k8s.io": UNIT})
    charged = requests(pod["spec"]) if pod is not None else {}
    for device_class, amount in devices(claim).items():
        found[f"{device_class}.deviceclass.resource.k8s.io/devices"] += amount * UNIT
        names = [f"deviceclass.resource.kubernetes.io/{device_class}"]
        if extended := extended_name(device_class):
            names.append(extended)
        for name in names:
            found[f"requests.{name}"] += max(0, amount - charged.get(name, 0)) * UNIT
    return found


def is_for_extended_resources(claim: Object) -> bool:
    return (claim["metadata"].get("annotations") or {}).get(_EXTENDED_CLAIM) == "true"


def of_service(service: Object) -> Counter[str]:
    found: Counter[str] = Counter({"count/services": UNIT, "services": UNIT})
    spec = service.get("spec") or {}
    kind, ports = spec.get("type"), len(spec.get("ports") or ())
    if kind == "NodePort":
        found["services.nodeports"] = ports * UNIT
    elif kind == "LoadBalancer":
        found["services.loadbalancers"] = UNIT
        if spec.get("allocateLoadBalancerNodePorts") is not False:
            found["services.nodeports"] = ports * UNIT
    return found


def text(name: str, nanos: int) -> str:
    binary = any(part in name for part in ("memory", "storage", "hugepages-"))
    return Quantity(nanos, -9, Format.BINARY_SI if binary else Format.DECIMAL_SI, wide=True).canonical()
