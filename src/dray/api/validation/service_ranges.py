"""IPAddress and ServiceCIDR: addresses of Services as objects, with whom they belong to."""

from __future__ import annotations

from ipaddress import ip_network

from dray.api import errors
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import addresses, fields
from dray.api.validation.fields import Errors

_MOST_RANGES = 2


def is_canonical_address(text: str) -> bool:
    found = addresses.address(text)
    return found is not None and str(found) == text


def validate_address(address: Object, rules: Rules) -> Errors:
    parent = address["spec"].get("parentRef")
    if parent is None:
        yield errors.required("spec.parentRef")
        return
    for member in ("resource", "name"):
        if not parent.get(member):
            yield errors.required(f"spec.parentRef.{member}")


def validate_address_update(address: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_address(address, rules)
    yield from fields.immutable(address["spec"].get("parentRef"), old["spec"].get("parentRef"), "spec.parentRef")


def validate_range(service_range: Object, rules: Rules) -> Errors:
    ranges = service_range["spec"].get("cidrs") or []
    if not ranges:
        yield errors.required("spec.cidrs", "at least one CIDR required")
        return
    if len(ranges) > _MOST_RANGES:
        detail = "may only hold up to 2 values"
        yield errors.invalid("spec.cidrs", ranges, detail)
        return
    for index, each in enumerate(ranges):
        at = f"spec.cidrs[{index}]"
        yield from addresses.cidr(each, at)
        if addresses.is_range(each) and str(ip_network(each, strict=False)) != each:
            yield errors.invalid(at, each, "must be a CIDR in canonical form")
    families = [ip_network(range_, strict=False).version for range_ in ranges if addresses.is_range(range_)]
    if len(families) == _MOST_RANGES and len(set(families)) == 1:
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield errors.invalid("spec.cidrs", ranges, detail)


def validate_range_update(service_range: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_range(service_range, rules)
    for index, each in enumerate(old["spec"].get("cidrs") or []):
        given = service_range["spec"].get("cidrs") or []
        if index >= len(given) or given[index] != each:
            yield errors.invalid(f"spec.cidrs[{index}]", given, "field is immutable")
