"""Endpoints and EndpointSlices: the addresses and ports behind a Service."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import addresses, fields
from dray.api.validation.fields import Errors

_ADDRESS_TYPES = ["FQDN", "IPv4", "IPv6"]
_MOST_ENDPOINTS = 1000
_MOST_PORTS = 20_000
_MOST_ADDRESSES = 100
_MOST_ZONES = 8


def validate(endpoints: Object, rules: Rules) -> Errors:
    for index, subset in enumerate(endpoints.get("subsets") or []):
        yield from _subset(subset, f"subsets[{index}]")


def validate_update(endpoints: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(endpoints, rules)


def _subset(subset: Object, path: str) -> Errors:
    ready, others = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
    if not ready and not others:
        yield errors.required(path, "must specify `addresses` or `notReadyAddresses`")
    for member, given in (("addresses", ready), ("notReadyAddresses", others)):
        for index, address in enumerate(given):
            at = f"{path}.{member}[{index}]"
            yield from addresses.endpoint(address["ip"], f"{at}.ip")
            if address.get("hostname"):
                yield from fields.label(address["hostname"], f"{at}.hostname")
    ports = subset.get("ports") or []
    for index, port in enumerate(ports):
        at = f"{path}.ports[{index}]"
        if port.get("name"):
            yield from fields.label(port["name"], f"{at}.name")
        elif len(ports) > 1:
            yield errors.required(f"{at}.name")
        yield from addresses.port_number(port["port"], f"{at}.port")
        yield from fields.enum(port.get("protocol"), addresses.PROTOCOLS, f"{at}.protocol", required=True)
        yield from addresses.app_protocol(port.get("appProtocol"), f"{at}.appProtocol")


def validate_slice(endpoint_slice: Object, rules: Rules) -> Errors:
    kind = endpoint_slice["addressType"]
    yield from fields.enum(kind, _ADDRESS_TYPES, "addressType", required=True)
    endpoints = endpoint_slice["endpoints"] or []
    if len(endpoints) > _MOST_ENDPOINTS:
        yield errors.too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)
    else:
        for index, endpoint in enumerate(endpoints):
            yield from _endpoint(endpoint, kind, f"endpoints[{index}]")
    yield from fields.limited(
        endpoint_slice["ports"] or [], _MOST_PORTS, "ports", _slice_port, key=lambda port: port.get("name") or ""
    )


def _endpoint(endpoint: Object, kind: str, path: str) -> Errors:
    given = endpoint["addresses"] or []
    if not given:
        yield errors.required(f"{path}.addresses", "must contain at least 1 address")
    elif len(given) > _MOST_ADDRESSES:
        yield errors.too_many(f"{path}.addresses", len(given), _MOST_ADDRESSES)
        return
    for index, address in enumerate(given):
        yield from _address(address, kind, f"{path}.addresses[{index}]")
    if endpoint.get("nodeName") is not None:
        yield from fields.subdomain(endpoint["nodeName"], f"{path}.nodeName")
    if endpoint.get("hostname") is not None:
        yield from fields.label(endpoint["hostname"], f"{path}.hostname")
    zones = (endpoint.get("hints") or {}).get("forZones") or []
    if len(zones) > _MOST_ZONES:
        yield errors.too_many(f"{path}.hints.forZones", len(zones), _MOST_ZONES)


def _address(text: str, kind: str, path: str) -> Errors:
    if kind == "FQDN":
        if not names.is_subdomain(text):
            yield errors.invalid(path, text, names.SUBDOMAIN_DETAIL)
        return
    wanted = {"IPv4": IPv4Address, "IPv6": IPv6Address}.get(kind)
    found = addresses.address(text)
    if wanted is not None and found is not None and not isinstance(found, wanted):
        yield errors.invalid(path, text, f"must be an {kind} address")
    else:
        yield from addresses.endpoint(text, path)


def _slice_port(port: Object, path: str) -> Errors:
    if port.get("name"):
        yield from fields.label(port["name"], f"{path}.name")
    yield from fields.enum(port.get("protocol"), addresses.PROTOCOLS, f"{path}.protocol", required=True)
    if port.get("port") is not None:
        yield from addresses.port_number(port["port"], f"{path}.port")
    yield from addresses.app_protocol(port.get("appProtocol"), f"{path}.appProtocol")


def validate_slice_update(endpoint_slice: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_slice(endpoint_slice, rules)
    yield from fields.immutable(endpoint_slice["addressType"], old["addressType"], "addressType")
