"""NetworkPolicy: which pods it is for, and with whom they may talk."""

from __future__ import annotations

from ipaddress import ip_network

from dray.api import errors
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import addresses, fields, metadata
from dray.api.validation.fields import Errors

_TYPES = ["Egress", "Ingress"]
_SELECTORS = ("podSelector", "namespaceSelector")


def validate(policy: Object, rules: Rules) -> Errors:
    spec = policy["spec"]
    yield from metadata.label_selector(spec["podSelector"] or {}, "spec.podSelector")
    for member, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(member) or []):
            at = f"spec.{member}[{index}]"
            for position, port in enumerate(rule.get("ports") or []):
                yield from _port(port, f"{at}.ports[{position}]")
            for position, peer in enumerate(rule.get(peers) or []):
                yield from _peer(peer, f"{at}.{peers}[{position}]")
    types = spec.get("policyTypes") or []
    if len(types) > len(_TYPES):
        yield errors.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, each in enumerate(types):
        yield from fields.enum(each, _TYPES, f"spec.policyTypes[{index}]", required=True)


def validate_update(policy: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(policy, rules)


def _port(port: Object, path: str) -> Errors:
    yield from fields.enum(port.get("protocol"), addresses.PROTOCOLS, f"{path}.protocol")
    first, last = port.get("port"), port.get("endPort")
    if first is not None:
        yield from addresses.port(first, f"{path}.port")
    if last is None:
        return
    if first is None:
        yield errors.invalid(f"{path}.endPort", last, "may not be specified when `port` is not specified")
    elif not isinstance(first, int):
        yield errors.invalid(f"{path}.endPort", last, "may not be specified when `port` is non-numeric")
    else:
        if last < first:
            yield errors.invalid(f"{path}.endPort", last, "must be greater than or equal to `port`")
        yield from addresses.port_number(last, f"{path}.endPort")


def _peer(peer: Object, path: str) -> Errors:
    chosen = [member for member in _SELECTORS if peer.get(member) is not None]
    for member in chosen:
        yield from metadata.label_selector(peer[member], f"{path}.{member}")
    block = peer.get("ipBlock")
    if block is not None:
        yield from _block(block, f"{path}.ipBlock")
        if chosen:
            yield errors.forbidden(path, "may not specify both ipBlock and another peer")
    elif not chosen:
        yield errors.required(path, "must specify a peer")


def _block(block: Object, path: str) -> Errors:
    whole = block["cidr"]
    if not whole:
        yield errors.required(f"{path}.cidr")
        return
    yield from addresses.cidr(whole, f"{path}.cidr")
    for index, part in enumerate(block.get("except") or []):
        at = f"{path}.except[{index}]"
        yield from addresses.cidr(part, at)
        if addresses.is_range(whole) and addresses.is_range(part) and not _is_part(part, whole):
            yield errors.invalid(at, part, "must be a strict subset of `cidr`")


def _is_part(part: str, whole: str) -> bool:
    inner, outer = ip_network(part, strict=False), ip_network(whole, strict=False)
    return inner.version == outer.version and inner.prefixlen > outer.prefixlen and inner.network_address in outer
