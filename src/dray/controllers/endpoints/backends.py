"""Backends of a Service: the pods it selects, each with its address, its state and the numbers of its ports.

A pod counts from the moment it has an address until it has ended. One that is being deleted still serves until it is
gone, and is marked as terminating.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dray.api.objects import Object, is_deleting, key_of, labels_of, mapping, mappings, spec_of, status_of, uid_of
from dray.api.pods import is_ready, is_terminal, node_of
from dray.api.service_addresses import HEADLESS
from dray.api.validation.addresses import endpoint

SERVICE_LABEL = "kubernetes.io/service-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"


class Port(NamedTuple):
    name: str
    number: int
    protocol: str
    app_protocol: str = ""


@dataclass(frozen=True, slots=True)
class Backend:
    pod: Object
    address: str
    ports: tuple[Port, ...]
    # Whether its containers are ready, whether it is being deleted, and whether it is to be used.
    serving: bool
    terminating: bool
    ready: bool
    hostname: str = ""

    @property
    def reference(self) -> Object:
        namespace, name = key_of(self.pod)
        return {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid_of(self.pod)}


def selector_of(service: Object) -> dict[str, str]:
    """Returns the Service's selector; empty if its endpoints are managed by others."""
    spec = spec_of(service)
    return {} if spec.get("type") == "ExternalName" else mapping(spec.get("selector"))


def selects(selector: dict[str, str]) -> Callable[[Object], bool]:
    wanted = selector.items()
    return lambda pod: wanted <= labels_of(pod).items()


def backends(service: Object, pods: Iterable[Object]) -> Iterator[Backend]:
    published = bool(spec_of(service).get("publishNotReadyAddresses"))
    for pod in pods:
        address = str(status_of(pod).get("podIP") or "")
        # An address that means another machine to each of its readers is none.
        if not address or is_terminal(pod) or next(endpoint(address, ""), None) is not None:
            continue
        serving, terminating = is_ready(pod), is_deleting(pod)
        ready = published or (serving and not terminating)
        yield Backend(pod, address, _ports(service, pod), serving, terminating, ready, _hostname(service, pod))


def _hostname(service: Object, pod: Object) -> str:
    spec = spec_of(pod)
    return str(spec.get("hostname") or "") if spec.get("subdomain") == key_of(service)[1] else ""


def _ports(service: Object, pod: Object) -> tuple[Port, ...]:
    """Returns the Service's ports with the pod's numbers; leaves out a named port that the pod does not have."""
    found = []
    for port in mappings(spec_of(service).get("ports")):
        protocol = str(port.get("protocol") or "TCP")
        number = _number(pod, port.get("targetPort") or port["port"], protocol)
        if number is not None:
            found.append(Port(port.get("name") or "", number, protocol, port.get("appProtocol") or ""))
    return tuple(found)


def _number(pod: Object, target: int | str, protocol: str) -> int | None:
    if isinstance(target, int):
        return target
    spec = spec_of(pod)
    sidecars = [sidecar for sidecar in mappings(spec.get("initContainers")) if sidecar.get("restartPolicy") == "Always"]
    for container in (*mappings(spec.get("containers")), *sidecars):
        for port in mappings(container.get("ports")):
            if port.get("name") == target and (port.get("protocol") or "TCP") == protocol:
                return int(port["containerPort"])
    return None


def common_labels(service: Object, managed_by: str, manager: str) -> dict[str, str]:
    """Returns the labels of EndpointSlices and Endpoints of a Service: its own and the managing controller."""
    labels = {**labels_of(service), managed_by: manager}
    if spec_of(service).get("clusterIP") == HEADLESS:
        labels[HEADLESS_LABEL] = ""
    else:
        labels.pop(HEADLESS_LABEL, None)
    return labels


def location(backend: Backend) -> Object:
    node = node_of(backend.pod)
    return {"nodeName": node} if node else {}
