"""Features and private flags of an interface, as `ethtool -K` and `ethtool --set-priv-flags` change them."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Final

# Names of whole groups that ethtool(8) has, and the kernel's names behind them.
_GROUPS: Final = {
    "rx-checksumming": "rx-checksum",
    "tx-checksumming": "tx-checksum-*",
    "scatter-gather": "tx-scatter-gather*",
    "tcp-segmentation-offload": "tx-tcp*-segmentation",
    "generic-segmentation-offload": "tx-generic-segmentation",
    "generic-receive-offload": "rx-gro",
    "large-receive-offload": "rx-lro",
    "rx-vlan-offload": "rx-vlan-hw-parse",
    "tx-vlan-offload": "tx-vlan-hw-insert",
    "ntuple-filters": "rx-ntuple-filter",
    "receive-hashing": "rx-hashing",
}
_SIOCETHTOOL: Final = 0x8946
_GET_STRING_COUNT, _GET_STRINGS, _GET_FLAGS, _SET_FLAGS = 0x37, 0x1B, 0x27, 0x28
_PRIVATE_FLAGS: Final = 2
_STRING: Final = 32


class EthtoolFailed(Exception):
    """The interface lacks a feature, or cannot change it."""


def features(interface: str, wanted: Mapping[str, bool]) -> dict[str, bool]:
    """Returns the wanted features by kernel name. Raises EthtoolFailed for features that the interface lacks."""
    with _ethtool() as tool:
        known = tool.get_features(interface).features
    found: dict[str, bool] = {}
    for name, value in wanted.items():
        pattern = _GROUPS.get(name, name)
        matching = [feature for feature in known if fnmatchcase(feature, pattern)]
        if not matching:
            raise EthtoolFailed(f"ethtool.features: {interface} has no feature {name}")
        changeable = [feature for feature in matching if known[feature].available]
        fixed = [feature for feature in matching if feature not in changeable and bool(known[feature].enable) != value]
        if fixed and (len(fixed) == len(matching) or pattern == name):
            raise EthtoolFailed(f"ethtool.features: {fixed[0]} of {interface} is fixed")
        found |= dict.fromkeys(changeable, value)
    return found


def read_features(interface: str, names: Mapping[str, bool]) -> dict[str, bool]:
    if not names:
        return {}
    with _ethtool() as tool:
        known = tool.get_features(interface).features
    return {name: bool(known[name].enable) for name in names if name in known}


def set_features(interface: str, values: Mapping[str, bool]) -> None:
    if not values:
        return
    with _ethtool() as tool:
        current = tool.get_features(interface)
        for name, value in values.items():
            current.features[name].enable = value
        tool.set_features(interface, current)


@contextmanager
def _ethtool() -> Iterator[Any]:
    from pyroute2.ethtool import Ethtool

    try:
        with Ethtool() as tool:
            yield tool
    except OSError as error:
        raise EthtoolFailed(f"ethtool.features: {error.strerror or error}") from error


def private_flags(interface: str) -> dict[str, bool]:
    """Empty where its driver has none."""
    try:
        names = _flag_names(interface)
        bits = struct.unpack("=II", _ioctl(interface, struct.pack("=II", _GET_FLAGS, 0)))[1] if names else 0
    except OSError:
        return {}
    return {name: bool(bits >> place & 1) for place, name in enumerate(names)}


def set_private_flags(interface: str, values: Mapping[str, bool]) -> None:
    if not values:
        return
    current = private_flags(interface)
    for name in values:
        if name not in current:
            raise EthtoolFailed(f"ethtool.privateFlags: {interface} has no flag {name}")
    wanted = {**current, **values}
    bits = sum(1 << place for place, name in enumerate(current) if wanted[name])
    try:
        _ioctl(interface, struct.pack("=II", _SET_FLAGS, bits))
    except OSError as error:
        raise EthtoolFailed(f"ethtool.privateFlags of {interface}: {error.strerror}") from error


def _flag_names(interface: str) -> list[str]:
    count = struct.pack("=IIQI", _GET_STRING_COUNT, 0, 1 << _PRIVATE_FLAGS, 0)
    _, _, mask, number = struct.unpack("=IIQI", _ioctl(interface, count))
    if not mask or not number:
        return []
    asked = struct.pack("=III", _GET_STRINGS, _PRIVATE_FLAGS, number) + bytes(number * _STRING)
    answer = _ioctl(interface, asked)[12:]
    places = range(0, number * _STRING, _STRING)
    return [answer[at : at + _STRING].partition(b"\0")[0].decode(errors="replace") for at in places]


def _ioctl(interface: str, data: bytes) -> bytes:
    buffer = ctypes.create_string_buffer(data, len(data))
    request = struct.pack("@16sP", interface.encode(), ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        fcntl.ioctl(made, _SIOCETHTOOL, request.ljust(40, b"\0"))
    return buffer.raw
