"""Largest sizes of segmentation and receive offload of an interface: attributes of netlink that pyroute2 lacks."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from typing import Final

from dray.drivers.nic.links import NetlinkFailed

# By their names in the configuration of claims.
_ATTRIBUTES: Final = {"gsoMaxSize": 41, "groMaxSize": 58, "gsoIPv4MaxSize": 63, "groIPv4MaxSize": 64}
_NETLINK_ROUTE: Final = 0
_GETLINK, _SETLINK, _ERROR = 18, 19, 2
_REQUEST, _ACK = 1, 4
_HEADER: Final = struct.Struct("=IHHII")
_INTERFACE: Final = struct.Struct("=BxHiII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_BUFFER: Final = 1 << 18


def read_sizes(index: int) -> dict[str, int]:
    """Returns the sizes that the kernel reports, by name."""
    answer = _ask(_GETLINK, index, b"", _REQUEST)
    names = {number: name for name, number in _ATTRIBUTES.items()}
    found, at = {}, _HEADER.size + _INTERFACE.size
    while at + _ATTRIBUTE.size <= len(answer):
        length, kind = _ATTRIBUTE.unpack_from(answer, at)
        if length < _ATTRIBUTE.size:
            break
        if kind in names:
            found[names[kind]] = struct.unpack_from("=I", answer, at + _ATTRIBUTE.size)[0]
        at += (length + 3) & ~3
    return found


def set_sizes(index: int, sizes: Mapping[str, int]) -> None:
    """Sets the sizes. Raises NetlinkFailed."""
    if sizes:
        attributes = b"".join(struct.pack("=HHI", 8, _ATTRIBUTES[name], size) for name, size in sizes.items())
        _ask(_SETLINK, index, attributes, _REQUEST | _ACK)


def _ask(kind: int, index: int, attributes: bytes, flags: int) -> bytes:
    body = _INTERFACE.pack(socket.AF_UNSPEC, 0, index, 0, 0) + attributes
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as made:
        made.bind((0, 0))
        made.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
        answer = made.recv(_BUFFER)
    if _HEADER.unpack_from(answer)[1] == _ERROR:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if number:
            raise NetlinkFailed(os.strerror(number))
    return answer
