"""Extended resources that devices serve: the device class of each resource, and device requests for a pod.

A node serves an extended resource either itself (it is in its allocatable) or by devices, never both. So the device
requests of a pod depend on the node. Containers that run one after the other can use the same devices: an init
container uses the devices of later containers, and what it needs beyond these is requested once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dray.api.objects import Key, Object, mapping, mappings
from dray.api.pod_requests import container_requests, is_sidecar
from dray.api.pods import containers_of
from dray.api.quantity import Quantity, QuantityError

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_NONE: Final[frozenset[str]] = frozenset()


class ResourceMap:
    """Names of extended resources, and the device classes that serve them."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._claimants: dict[str, dict[str, str]] = {}
        """Creation times of the classes that claim a resource name, by resource and class name."""
        self._names: dict[str, tuple[str, ...]] = {}
        self._classes: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._classes)

    def put_class(self, document: Object) -> None:
        if not self._enabled:
            return
        metadata = document["metadata"]
        name = metadata["name"]
        explicit = mapping(document.get("spec")).get("extendedResourceName")
        names = (IMPLICIT + name, explicit) if explicit else (IMPLICIT + name,)
        self.remove_class(name)
        self._names[name] = names
        for resource in names:
            self._claimants.setdefault(resource, {})[name] = metadata.get("creationTimestamp") or ""
            self._decide(resource)

    def remove_class(self, name: str) -> None:
        for resource in self._names.pop(name, ()):
            self._claimants[resource].pop(name, None)
            self._decide(resource)

    def disable(self) -> None:
        """Forgets all classes, and ignores them from now on."""
        self._enabled = False
        for members in (self._claimants, self._names, self._classes):
            members.clear()

    def names(self, class_name: str) -> tuple[str, ...]:
        """The resource names by which devices of a class can be requested."""
        return self._names.get(class_name) or (IMPLICIT + class_name,)

    def class_of(self, resource: str) -> str | None:
        return self._classes.get(resource)

    def _decide(self, resource: str) -> None:
        """Assigns a resource name to the newest of the classes that claim it; if equal, to the first by name."""
        claimants = self._claimants[resource]
        if claimants:
            self._classes[resource] = max(sorted(claimants), key=lambda name: claimants[name])
        else:
            del self._claimants[resource]
            self._classes.pop(resource, None)


def wanted(document: Object, resources: ResourceMap) -> frozenset[str]:
    """The extended resources that the pod requests and a device class serves."""
    if not resources:
        return _NONE
    spec = mapping(document.get("spec"))
    names = {
        name
        for containers in (spec.get("containers"), spec.get("initContainers"))
        for container in mappings(containers)
        for name, amount in container_requests(container).items()
        if is_extended(name) and resources.class_of(name) is not None and _count(amount)
    }
    return frozenset(names) if names else _NONE


def is_extended(name: str) -> bool:
    """Whether a resource name is that of an extended resource, and not one of Kubernetes' own."""
    own = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    return not own or name.startswith(IMPLICIT)


def _count(amount: object) -> int:
    """An amount as a number of devices; 0 if it is no integer."""
    try:
        return max(0, Quantity.parse(str(amount)).as_int64() or 0)
    except QuantityError:
        return 0


def requests_for(document: Object, served: Iterable[str], resources: ResourceMap) -> tuple[list[Object], list[Object]]:
    """Returns the device requests for the extended resources in `served`, sorted by name, and mappings for the status
    of the pod: which container gets which resource from which request."""
    spec = mapping(document.get("spec"))
    containers = list(containers_of(spec))
    short = [n for n, container in enumerate(mappings(spec.get("initContainers"))) if not is_sidecar(container)]
    requests: list[Object] = []
    mapped: list[Object] = []
    for name in sorted(served):
        device_class = resources.class_of(name)
        if device_class is not None:
            of_resource = _ResourceRequests(name, device_class, containers)
            of_resource.share(short)
            requests += of_resource.requests
            mapped += of_resource.mappings
    return sorted(requests, key=lambda request: str(request["name"])), mapped


def claim_for(key: Key, uid: str, requests: Sequence[Object]) -> Object:
    """The claim with the device requests for extended resources."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": key[0], "name": key[1], "uid": uid},
        "spec": {"devices": {"requests": list(requests)}},
    }


class _ResourceRequests:
    """The device requests for one extended resource."""

    def __init__(self, resource: str, device_class: str, containers: Sequence[Object]) -> None:
        self._resource = resource
        self._class = device_class
        self._containers = containers
        self.requests: list[Object] = []
        self.mappings: list[Object] = []

    def share(self, short: Sequence[int]) -> None:
        """Finds the requests and mappings; `short` are the containers that end before later ones start."""
        lasting: dict[int, Object] = {}
        for index, container in enumerate(self._containers):
            amount = self._wants(container)
            if amount and index not in short:
                lasting[index] = self._request(index, amount)
                self.mappings.append(self._mapping(index, lasting[index]["name"]))
        extras: list[Object] = []
        passing: list[Object] = []
        for index in short:
            missing, used = self._reuse(index, lasting)
            passing += [self._mapping(index, name) for name in used]
            if missing:
                extras.append(self._request(index, missing))
                passing.append(self._mapping(index, extras[-1]["name"]))
        self.requests = list(lasting.values())
        if extras:
            self._keep_largest(extras, passing)
        self.mappings += passing

    def _reuse(self, index: int, lasting: dict[int, Object]) -> tuple[int, list[str]]:
        """How many devices an init container needs beyond those of later containers, and the requests that it uses."""
        missing, used = self._wants(self._containers[index]), []
        for later, request in lasting.items():
            if missing <= 0:
                break
            if later > index:
                missing -= request["exactly"]["count"]
                used.append(request["name"])
        return max(0, missing), used

    def _keep_largest(self, extras: Sequence[Object], passing: Iterable[Object]) -> None:
        largest = max(extras, key=lambda request: int(request["exactly"]["count"]))
        self.requests.append(largest)
        names = {request["name"] for request in extras}
        for mapping_ in passing:
            if mapping_["requestName"] in names:
                mapping_["requestName"] = largest["name"]

    def _wants(self, container: Object) -> int:
        return _count(container_requests(container).get(self._resource, 0))

    def _request(self, index: int, count: int) -> Object:
        rank = sorted(container_requests(self._containers[index])).index(self._resource)
        exactly = {"deviceClassName": self._class, "allocationMode": "ExactCount", "count": count}
        return {"name": f"container-{index}-request-{rank}", "exactly": exactly}

    def _mapping(self, index: int, request: str) -> Object:
        return {
            "containerName": self._containers[index].get("name"),
            "resourceName": self._resource,
            "requestName": request,
        }
