"""RDMA devices: their files for containers, and their move into a network namespace where the kernel keeps them apart.

With the mode `exclusive` an RDMA device belongs to one network namespace, and a pod uses it from there alone; with
`shared`, which is the default of the kernel, all namespaces may. The kernel is spoken to over NETLINK_RDMA, which
pyroute2 does not know.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Final

from dray.driver import DeviceNode
from dray.drivers.nic.links import NetlinkFailed
from dray.drivers.nic.sysfs import rdma_character_devices

_NETLINK_RDMA: Final = 20
_CLIENT: Final = 5 << 10
_GET, _SET, _SYSTEM_GET = 1, 2, 6
_DEVICE_INDEX, _DEVICE_NAME, _NAMESPACE_MODE, _NAMESPACE_DESCRIPTOR = 1, 2, 66, 68
_REQUEST, _ACK, _DUMP = 1, 4, 0x300
_ERROR, _DONE = 2, 3
_HEADER: Final = struct.Struct("=IHHII")
_BUFFER: Final = 1 << 18

Attributes = dict[int, bytes]


def device_nodes(sysfs: Path, devices: Path, rdma_device: str) -> tuple[DeviceNode, ...]:
    """Returns the device nodes of an RDMA device whose files exist."""
    paths = [devices / "infiniband" / name for name in rdma_character_devices(sysfs, rdma_device)]
    nodes = []
    for path in paths:
        if path.exists():
            inside = f"/dev/infiniband/{path.name}"
            nodes.append(DeviceNode(inside, "" if str(path) == inside else str(path)))
    return tuple(nodes)


def is_exclusive() -> bool:
    """Whether the kernel keeps RDMA devices of network namespaces apart; a kernel without RDMA does not."""
    try:
        answers = _ask(_SYSTEM_GET, b"", _REQUEST)
    except (OSError, NetlinkFailed):
        return False
    # 1 is shared.
    return any(answer.get(_NAMESPACE_MODE, b"\1")[:1] == b"\0" for answer in answers)


def move(rdma_device: str, namespace: int) -> bool:
    """Moves an RDMA device to another network namespace. Returns False if it is not here. Raises NetlinkFailed."""
    for answer in _ask(_GET, b"", _REQUEST | _DUMP):
        if answer.get(_DEVICE_NAME, b"").rstrip(b"\0").decode() == rdma_device:
            index = answer[_DEVICE_INDEX]
            wanted = _attribute(_DEVICE_INDEX, index) + _attribute(_NAMESPACE_DESCRIPTOR, struct.pack("=I", namespace))
            _ask(_SET, wanted, _REQUEST | _ACK)
            return True
    return False


def _attribute(kind: int, value: bytes) -> bytes:
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data.ljust((len(data) + 3) & ~3, b"\0")


def _ask(command: int, attributes: bytes, flags: int) -> list[Attributes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_RDMA) as made:
        made.settimeout(5)
        made.bind((0, 0))
        made.send(_HEADER.pack(_HEADER.size + len(attributes), _CLIENT + command, flags, 1, 0) + attributes)
        found: list[Attributes] = []
        while True:
            data = made.recv(_BUFFER)
            while data:
                length, kind = _HEADER.unpack_from(data)[:2]
                if kind == _ERROR:
                    number = -struct.unpack_from("=i", data, _HEADER.size)[0]
                    if number:
                        raise NetlinkFailed(os.strerror(number))
                    return found
                if kind == _DONE:
                    return found
                found.append(_attributes(data[_HEADER.size : length]))
                data = data[(length + 3) & ~3 :]
            if not flags & (_DUMP | _ACK):
                return found


def _attributes(data: bytes) -> Attributes:
    found: Attributes = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found
