"""IP addresses and CIDR blocks. No zones, no IPv4-mapped IPv6, no leading zeros, as in Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from dray.cel import types as t
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.library.conversions import register_string
from dray.cel.values import Value, register_type

LIBRARY: Final = Library("network")
LIBRARY.constants["net.IP"] = t.IP
LIBRARY.constants["net.CIDR"] = t.CIDR


@dataclass(frozen=True, slots=True)
class IP:
    address: IPv4Address | IPv6Address

    @property
    def byte_size(self) -> int:
        return 4 if self.address.version == 4 else 16

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    address: IPv4Address | IPv6Address
    prefix: int

    @property
    def byte_size(self) -> int:
        return -(-self.prefix // 8)

    @property
    def masked(self) -> CIDR:
        network = ip_network((self.address, self.prefix), strict=False)
        return CIDR(network.network_address, self.prefix)

    def holds(self, address: IPv4Address | IPv6Address) -> bool:
        if address.version != self.address.version:
            return False
        shift = address.max_prefixlen - self.prefix
        return int(address) >> shift == int(self.address) >> shift

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"


register_type(IP, "net.IP")
register_type(CIDR, "net.CIDR")
register_string(IP, str)
register_string(CIDR, str)


def parse_ip(text: Value, function: str = "ip") -> IP:
    if type(text) is not str:
        raise no_such_overload(function)
    try:
        address = ip_address(text)
    except ValueError:
        raise EvaluationError(f"IP Address {text[:64]!r} parse error during conversion from string") from None
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None):
        raise EvaluationError(f"IP address {text[:64]!r} with a zone or an IPv4-mapped one is not allowed")
    return IP(address)


def parse_cidr(text: Value, function: str = "cidr") -> CIDR:
    if type(text) is not str:
        raise no_such_overload(function)
    address, _, prefix = text.partition("/")
    plain = prefix.isascii() and prefix.isdigit() and len(prefix) <= 3 and (prefix == "0" or prefix[0] != "0")
    if not plain:
        raise EvaluationError(f"network address parse error during conversion from string: {text[:64]!r}")
    parsed = parse_ip(address, function).address
    if int(prefix) > parsed.max_prefixlen:
        raise EvaluationError(f"network address parse error during conversion from string: {text[:64]!r}")
    return CIDR(parsed, int(prefix))


def _succeeds(parse: Callable[[str], object], function: str) -> Callable[[Value], bool]:
    def test(text: Value) -> bool:
        if type(text) is not str:
            raise no_such_overload(function)
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return test


def _ip(value: Value) -> IP:
    if isinstance(value, CIDR):
        return IP(value.address)
    return parse_ip(value)


def _canonical(text: Value) -> bool:
    return bool(str(parse_ip(text, "ip.isCanonical")) == text)


def _address(value: Value, function: str) -> IPv4Address | IPv6Address:
    if not isinstance(value, IP):
        raise no_such_overload(function)
    return value.address


def _block(value: Value, function: str) -> CIDR:
    if not isinstance(value, CIDR):
        raise no_such_overload(function)
    return value


def _link_local_multicast(value: Value) -> bool:
    address = _address(value, "isLinkLocalMulticast")
    if address.version == 4:
        return address in ip_network("224.0.0.0/24")
    packed = address.packed
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def _global_unicast(value: Value) -> bool:
    address = _address(value, "isGlobalUnicast")
    broadcast = address.version == 4 and int(address) == 0xFFFFFFFF
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not broadcast and not special


def _contains_ip(value: Value, other: Value) -> bool:
    block = _block(value, "containsIP")
    return block.holds(other.address if isinstance(other, IP) else parse_ip(other, "containsIP").address)


def _contains_cidr(value: Value, other: Value) -> bool:
    block = _block(value, "containsCIDR")
    inner = other if isinstance(other, CIDR) else parse_cidr(other, "containsCIDR")
    return block.holds(inner.masked.address) and block.prefix <= inner.prefix


_f = LIBRARY.function
_f("ip", _ip, "string_to_ip: (string) -> IP", "cidr_ip: CIDR.() -> IP")
_f("isIP", _succeeds(parse_ip, "isIP"), "is_ip: (string) -> bool")
_f("ip.isCanonical", _canonical, "ip_is_canonical: (string) -> bool")
_f("family", lambda v: _address(v, "family").version, "ip_family: IP.() -> int")
_f("isUnspecified", lambda v: _address(v, "isUnspecified").is_unspecified, "ip_is_unspecified: IP.() -> bool")
_f("isLoopback", lambda v: _address(v, "isLoopback").is_loopback, "ip_is_loopback: IP.() -> bool")
_f("isLinkLocalMulticast", _link_local_multicast, "ip_is_link_local_multicast: IP.() -> bool")
_f(
    "isLinkLocalUnicast",
    lambda v: _address(v, "isLinkLocalUnicast").is_link_local,
    "ip_is_link_local_unicast: IP.() -> bool",
)
_f("isGlobalUnicast", _global_unicast, "ip_is_global_unicast: IP.() -> bool")
_f("cidr", parse_cidr, "string_to_cidr: (string) -> CIDR")
_f("isCIDR", _succeeds(parse_cidr, "isCIDR"), "is_cidr: (string) -> bool")
_f(
    "containsIP",
    _contains_ip,
    "cidr_contains_ip_string: CIDR.(string) -> bool",
    "cidr_contains_ip_ip: CIDR.(IP) -> bool",
)
_f(
    "containsCIDR",
    _contains_cidr,
    "cidr_contains_cidr_string: CIDR.(string) -> bool",
    "cidr_contains_cidr: CIDR.(CIDR) -> bool",
)
_f("prefixLength", lambda v: _block(v, "prefixLength").prefix, "cidr_prefix_length: CIDR.() -> int")
_f("masked", lambda v: _block(v, "masked").masked, "cidr_masked: CIDR.() -> CIDR")
