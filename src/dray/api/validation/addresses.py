"""Addresses, ranges of addresses, ports and their names, as Services, policies and endpoints have them."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from dray.api import errors, names
from dray.api.validation.fields import Errors

PROTOCOLS = ["SCTP", "TCP", "UDP"]
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", re.ASCII)
_PORT_NAME_DETAIL = "the name of a port: at most 15 letters, digits and '-'"
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_IP_DETAIL = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR_DETAIL = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"

# What a translator of addresses turns into the IPv4 address in the last four bytes.
_TRANSLATED = IPv6Network("64:ff9b::/96")


def address(text: str) -> IPv4Address | IPv6Address | None:
    """Parses an IP address; None if it is invalid, has a zone or is too long."""
    if len(text) > 45 or "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_range(text: str) -> bool:
    if "/" not in text or len(text) > 49:
        return False
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    # A netmask in the place of a length is no CIDR.
    return text.rpartition("/")[2].isdecimal()


def ip(text: str, path: str) -> Errors:
    """An address in any form that means the same to all programs."""
    found = address(text)
    if found is None:
        # Programs read such numbers as decimal or as octal ones.
        zeros = address(_LEADING_ZEROS.sub("", text)) is not None
        yield errors.invalid(path, text, "must not have leading 0s" if zeros else _IP_DETAIL)
    elif isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        yield errors.invalid(path, text, "must not be an IPv4-mapped IPv6 address")


def endpoint(text: str, path: str) -> Errors:
    """Validates an endpoint address: unspecified, loopback and link-local addresses are refused."""
    found = address(text)
    if found is None:
        yield errors.invalid(path, text, _IP_DETAIL)
        return
    found = meant(found)
    for unusable, detail in (
        (found.is_unspecified, f"may not be unspecified ({text})"),
        (found.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (found.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
    ):
        if unusable:
            yield errors.invalid(path, text, detail)


def meant(given: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Returns the IPv4 address that an IPv6 address embeds, else the address itself."""
    if isinstance(given, IPv4Address):
        return given
    if given in _TRANSLATED:
        return IPv4Address(int(given) & 0xFFFFFFFF)
    return given.ipv4_mapped or given.sixtofour or given


def cidr(text: str, path: str) -> Errors:
    if not is_range(text):
        yield errors.invalid(path, text, _CIDR_DETAIL)


def port_number(port: int, path: str) -> Errors:
    if not 1 <= port <= 65535:
        yield errors.invalid(path, port, "must be between 1 and 65535, inclusive")


def port_name(name: str, path: str) -> Errors:
    if not _PORT_NAME.fullmatch(name):
        yield errors.invalid(path, name, _PORT_NAME_DETAIL)


def port(value: int | str, path: str) -> Errors:
    """Validates a port number or a port name."""
    yield from port_number(value, path) if isinstance(value, int) else port_name(value, path)


def app_protocol(value: str | None, path: str) -> Errors:
    if value is not None and not names.is_label_key(value):
        yield errors.invalid(path, value, names.LABEL_KEY_DETAIL)
