"""Service: its type, and ports with names and numbers of their own."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.service_addresses import HEADLESS
from dray.api.validation import addresses, fields, metadata
from dray.api.validation.fields import Errors

_TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
_AFFINITIES = ["ClientIP", "None"]
_POLICIES = ["Cluster", "Local"]


def validate(service: Object, rules: Rules) -> Errors:
    spec = service["spec"]
    ports, kind = spec.get("ports") or [], spec.get("type")
    headless = spec.get("clusterIP") == HEADLESS
    if not ports and not headless and kind != "ExternalName":
        yield errors.required("spec.ports")
    yield from fields.enum(kind, _TYPES, "spec.type", required=True)
    if kind == "ExternalName":
        yield from fields.subdomain((spec.get("externalName") or "").removesuffix("."), "spec.externalName")
    elif headless and kind in ("LoadBalancer", "NodePort"):
        yield errors.invalid("spec.clusterIP", HEADLESS, f"may not be set to 'None' for {kind} services")
    yield from _addresses(spec, "spec")
    yield from _ports(ports, "spec.ports")
    yield from metadata.labels(mapping(spec.get("selector")), "spec.selector")
    yield from fields.enum(spec.get("sessionAffinity"), _AFFINITIES, "spec.sessionAffinity", required=True)
    yield from fields.enum(spec.get("internalTrafficPolicy"), _POLICIES, "spec.internalTrafficPolicy")
    yield from fields.enum(spec.get("externalTrafficPolicy"), _POLICIES, "spec.externalTrafficPolicy")


def _addresses(spec: Object, path: str) -> Errors:
    address, listed = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if spec.get("type") == "ExternalName":
        if address:
            yield errors.forbidden(f"{path}.clusterIP", "may not be set for ExternalName services")
        return
    if listed and listed[0] != address:
        yield errors.invalid(f"{path}.clusterIPs", listed, "first value must match `clusterIP`")
    elif len(listed) > 1:
        yield errors.invalid(f"{path}.clusterIPs", listed, "this server has one IP family: may only hold 1 value")
    if address and address != HEADLESS:
        yield from addresses.ip(address, f"{path}.clusterIP")


def _ports(ports: list[Object], path: str) -> Errors:
    seen: set[str] = set()
    reached: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield errors.required(f"{at}.name")
        elif name:
            yield from fields.label(name, f"{at}.name")
            if name in seen:
                yield errors.duplicate(f"{at}.name", name)
            seen.add(name)
        yield from addresses.port_number(port["port"], f"{at}.port")
        yield from fields.enum(port.get("protocol"), addresses.PROTOCOLS, f"{at}.protocol", required=True)
        yield from addresses.port(port["targetPort"], f"{at}.targetPort")
        yield from addresses.app_protocol(port.get("appProtocol"), f"{at}.appProtocol")
        key = (port.get("protocol", ""), port["port"])
        if key in reached:
            yield errors.duplicate(at, {"protocol": key[0], "port": key[1]})
        reached.add(key)


def validate_update(service: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(service, rules)
    spec, before = service["spec"], old["spec"]
    kept = "ExternalName" not in (spec.get("type"), before.get("type"))
    if kept and before.get("clusterIP") and spec.get("clusterIP") != before["clusterIP"]:
        yield errors.invalid("spec.clusterIP", spec.get("clusterIP", ""), "field is immutable")
