"""The formats of text that schemas may ask for; formats that are not known ask for nothing, as in Kubernetes."""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

from dray.api import names


def is_valid(text: str, format_name: str) -> bool:
    check = _FORMATS.get(format_name.replace("-", ""))
    if check is None:
        return True
    try:
        return check(text)
    except (ValueError, OverflowError):
        return False


def _matches(expression: str) -> Callable[[str], bool]:
    compiled = re.compile(expression, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme or text.startswith("/")) and not any(letter.isspace() for letter in text)


def _is_base64(text: str) -> bool:
    binascii.a2b_base64(text, strict_mode=True)
    return True


def _is_date(text: str) -> bool:
    return len(text) == 10 and bool(date.fromisoformat(text))


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)", re.ASCII)


def _is_date_time(text: str) -> bool:
    return bool(_DATE_TIME.fullmatch(text)) and bool(datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)))


def _is_cidr(text: str) -> bool:
    return "/" in text and bool(ipaddress.ip_interface(text))


_HEX = r"[0-9a-fA-F]"


def _uuid(version: str) -> Callable[[str], bool]:
    return _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}")


_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(rf"{_HEX}{{24}}"),
    "uri": _is_uri,
    "email": _matches(r"[^@\s]{1,64}@[A-Za-z0-9.-]+"),
    "hostname": _matches(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?"),
    "ipv4": lambda text: bool(ipaddress.IPv4Address(text)) or True,
    "ipv6": lambda text: bool(ipaddress.IPv6Address(text)) or True,
    "cidr": _is_cidr,
    "mac": _matches(rf"({_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}|({_HEX}{{4}}\.){{2}}{_HEX}{{4}}"),
    "uuid": _uuid(_HEX),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "hexcolor": _matches(rf"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matches(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)"),
    "byte": _is_base64,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _matches(r"[+-]?(\d+(\.\d*)?|\.\d+)\s*[A-Za-zµ]+(\s*(\d+(\.\d*)?|\.\d+)\s*[A-Za-zµ]+)*|0"),
    "k8sshortname": names.is_label,
    "k8slongname": names.is_subdomain,
}
