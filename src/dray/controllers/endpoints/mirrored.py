"""EndpointSlices that mirror the Endpoints of a Service without a selector, which somebody else writes.

A slice stands for the addresses of one family with the same ports, at most a thousand of each subset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.api.objects import Object, annotations_of, controller_reference, key_of, labels_of, mapping, mappings
from dray.controllers.endpoints.backends import SERVICE_LABEL
from dray.controllers.endpoints.slices import MANAGED_BY, Identity, Plan, differs, identity_of, names

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP_LABEL: Final = "endpointslice.kubernetes.io/skip-mirror"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED: Final = frozenset(
    ("endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration")
)
_MOST: Final = 1000


def is_mirrored(endpoints: Object) -> bool:
    """Returns False for Endpoints with the skip-mirror label and for leader election locks."""
    return labels_of(endpoints).get(SKIP_LABEL) != "true" and _LEADER not in annotations_of(endpoints)


def plan(endpoints: Object, existing: list[Object]) -> Plan:
    found = Plan()
    standing = {
        (slice_["addressType"], identity_of(slice_)): slice_ for slice_ in sorted(existing, key=key_of, reverse=True)
    }
    fresh = names(endpoints, {key_of(slice_)[1] for slice_ in existing})
    for key, wanted in _wanted(endpoints).items():
        before = standing.get(key)
        if before is None:
            wanted["metadata"]["name"] = next(fresh)
            found.create.append(wanted)
            continue
        now = {**before, **wanted, "metadata": {**before["metadata"], **wanted["metadata"]}}
        if differs(before, now):
            found.update.append(now)
        existing = [slice_ for slice_ in existing if slice_ is not before]
    found.delete += existing
    return found


def _wanted(endpoints: Object) -> dict[tuple[str, Identity], Object]:
    """The slices that there are to be, by family of addresses and by ports."""
    found: dict[tuple[str, Identity], Object] = {}
    for subset in mappings(endpoints.get("subsets")):
        ports = [_port(port) for port in mappings(subset.get("ports"))]
        for number, (address, ready) in enumerate(_addresses(subset)):
            if number >= _MOST:
                break
            family = "IPv6" if ":" in str(address["ip"]) else "IPv4"
            made = _slice(endpoints, family, ports)
            made = found.setdefault((family, identity_of(made)), made)
            if len(made["endpoints"]) < _MOST:
                made["endpoints"].append(_endpoint(address, ready))
    return found


def _addresses(subset: Object) -> Iterator[tuple[Object, bool]]:
    for member, ready in (("addresses", True), ("notReadyAddresses", False)):
        yield from ((address, ready) for address in mappings(subset.get(member)))


def _slice(endpoints: Object, family: str, ports: list[Object]) -> Object:
    namespace, name = key_of(endpoints)
    labels = {**labels_of(endpoints), SERVICE_LABEL: name, MANAGED_BY: MANAGER}
    metadata: Object = {
        "namespace": namespace,
        "labels": labels,
        "annotations": {key: text for key, text in annotations_of(endpoints).items() if key not in _NOT_COPIED},
        "ownerReferences": [{**controller_reference("v1", "Endpoints", endpoints), "blockOwnerDeletion": True}],
    }
    if not metadata["annotations"]:
        del metadata["annotations"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "endpoints": [],
        "ports": ports,
    }


def _endpoint(address: Object, ready: bool) -> Object:
    copied = {member: address[member] for member in ("hostname", "nodeName") if address.get(member)}
    target = mapping(address.get("targetRef"))
    return {
        "addresses": [address["ip"]],
        "conditions": {"ready": ready},
        **copied,
        **({"targetRef": target} if target else {}),
    }


def _port(port: Object) -> Object:
    more = {"appProtocol": port["appProtocol"]} if port.get("appProtocol") else {}
    return {"name": port.get("name") or "", "port": port["port"], "protocol": port.get("protocol") or "TCP", **more}
