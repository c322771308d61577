"""Quota charges: what an object takes, by the names that quotas use, in nanos as quantities count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from dray.api.objects import Object, annotations_of, controller_of, mapping, spec_of, status_of, walk
from dray.api.pod_requests import requests
from dray.api.pods import is_terminal
from dray.api.quantity import Format, Quantity
from dray.api.quota.names import OF_STORAGE_CLASS
from dray.api.resource_claims import EXTENDED_CLAIM_ANNOTATION, MAX_DEVICES, requests_of
from dray.api.times import after

ExtendedName = Callable[[str], str | None]
"""The extended resource that a device class serves, if any."""

UNIT: Final = 10**9
_MILLI: Final = 10**6
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
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
    for name, amount in requests(limits_as_requests(spec)).items():
        if name in _COMPUTE:
            found[f"limits.{name}"] += amount * (_MILLI if name == "cpu" else UNIT)
    return found


def is_over(pod: Object, now: datetime) -> bool:
    if is_terminal(pod):
        return True
    end = end_of_grace(pod)
    return end is not None and now > end


def end_of_grace(pod: Object) -> datetime | None:
    """Returns when a pod that is being deleted should be gone; None if it is not being deleted."""
    metadata = pod["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds") is None:
        return None
    return after(datetime.fromisoformat(metadata["deletionTimestamp"]), metadata["deletionGracePeriodSeconds"])


def limits_as_requests(spec: Object) -> Object:
    """The pod as if it asked for its limits: they add up in the same way. Overhead comes only on top of a limit."""
    turned: Object = {
        member: [_turned(container) for container in spec.get(member) or ()]
        for member in ("containers", "initContainers")
    }
    turned["resources"] = _turned(spec)["resources"]
    limited = requests(turned)
    overhead = {name: amount for name, amount in mapping(spec.get("overhead")).items() if name in limited}
    return {**turned, "overhead": overhead}


def _turned(holder: Object) -> Object:
    limits = walk(holder, "resources", "limits")
    return {"restartPolicy": holder.get("restartPolicy"), "resources": {"requests": limits}}


def devices(claim: Object) -> Counter[str]:
    """Devices by class that a claim may take: of alternatives, per class the most that one of them asks for."""
    total: Counter[str] = Counter()
    for request in requests_of(claim["spec"]):
        if request.get("exactly"):
            total[request["exactly"].get("deviceClassName", "")] += _amount(request["exactly"])
            continue
        most: Counter[str] = Counter()
        for alternative in request.get("firstAvailable") or ():
            most |= Counter({alternative.get("deviceClassName", ""): _amount(alternative)})
        total += most
    return total


def _amount(request: Object) -> int:
    mode = request.get("allocationMode")
    if mode == "All":
        return MAX_DEVICES
    return int(request.get("count") or 0) if mode == "ExactCount" else 0


def of_claim(claim: Object, extended_name: ExtendedName, pod: Counter[str] | None = None) -> Counter[str]:
    """`pod` is what the pod takes for whose extended resources the claim was made: it is not charged twice."""
    found: Counter[str] = Counter({"count/resourceclaims.resource.k8s.io": UNIT})
    charged = pod if pod is not None else Counter[str]()
    for device_class, amount in devices(claim).items():
        found[f"{device_class}.deviceclass.resource.k8s.io/devices"] += amount * UNIT
        names = [f"requests.deviceclass.resource.kubernetes.io/{device_class}"]
        if extended := extended_name(device_class):
            names.append(f"requests.{extended}")
        for name in names:
            found[name] += max(0, amount * UNIT - charged[name])
    return found


def owning_pod(claim: Object) -> tuple[str, str] | None:
    """Name and uid of the pod for whose extended resources a claim says it was made."""
    if annotations_of(claim).get(EXTENDED_CLAIM_ANNOTATION) != "true":
        return None
    match controller_of(claim):
        case {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}:
            return name, uid
    return None


def is_charged_with(pod: Object, claim: Object, others: Iterable[Object]) -> bool:
    """Whether the pod has paid for a claim that is owned by it, as `others` are: for one of them, its own or the first.

    Otherwise a pod could be named by any number of claims.
    """
    told = status_of(pod).get("extendedResourceClaimStatus")
    if told is not None:
        return bool(told.get("resourceClaimName") == claim["metadata"].get("name"))
    return all(_age(claim) <= _age(other) for other in others)


def _age(claim: Object) -> tuple[str, str]:
    metadata = claim["metadata"]
    return metadata.get("creationTimestamp") or "", metadata.get("name") or ""


def of_service(service: Object) -> Counter[str]:
    found: Counter[str] = Counter({"count/services": UNIT, "services": UNIT})
    spec = spec_of(service)
    kind, ports = spec.get("type"), spec.get("ports") or ()
    if kind == "NodePort":
        found["services.nodeports"] = len(ports) * UNIT
    elif kind == "LoadBalancer":
        found["services.loadbalancers"] = UNIT
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        found["services.nodeports"] = len(ports) * UNIT
    return found


def of_volume(claim: Object) -> Counter[str]:
    """A claim for a volume takes what it asks for, or what it has already been given of a larger request."""
    found: Counter[str] = Counter({"count/persistentvolumeclaims": UNIT, "persistentvolumeclaims": UNIT})
    asked = (walk(claim, "spec", "resources", "requests"), walk(claim, "status", "allocatedResources"))
    amount = max(
        (Quantity.parse(resources["storage"]).nanos for resources in asked if resources.get("storage")), default=None
    )
    storage_class = annotations_of(claim).get(_CLASS_ANNOTATION, spec_of(claim).get("storageClassName"))
    if storage_class:
        found[f"{storage_class}{OF_STORAGE_CLASS}persistentvolumeclaims"] = UNIT
    if amount is not None:
        found["requests.storage"] = amount
        if storage_class:
            found[f"{storage_class}{OF_STORAGE_CLASS}requests.storage"] = amount
    return found


def text(name: str, nanos: int) -> str:
    binary = any(part in name for part in ("memory", "storage", "hugepages-"))
    return Quantity(nanos, -9, Format.BINARY_SI if binary else Format.DECIMAL_SI, wide=True).canonical()
