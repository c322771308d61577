"""eBPF programs at an interface: filters of traffic control, over netlink, and programs attached by TCX, by bpf(2).

Of TCX the kernel is asked itself, since netlink does not tell of it. A kernel that knows no TCX has no such programs.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_SYSCALL: Final = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351, "riscv64": 280}.get(platform.machine())
_PROG_DETACH, _PROG_GET_FD_BY_ID, _OBJ_GET_INFO, _PROG_QUERY = 9, 13, 15, 16
_LINK_GET_FD_BY_ID, _LINK_DETACH = 30, 34
_TCX: Final = (46, 47)
_MOST: Final = 64
_NAME_AT: Final = 64
_INFO_SIZE: Final = 80
# The two ends of a clsact qdisc.
_INGRESS, _EGRESS = 0xFFFFFFF2, 0xFFFFFFF3

_libc = ctypes.CDLL(None, use_errno=True)


def tc_filter_names(connection: Any, index: int) -> list[str]:
    return sorted({name for _, _, name in _filters(connection, index)})


def _filters(connection: Any, index: int) -> Iterator[tuple[int, Any, str]]:
    """End, message and name of each."""
    for parent in (_INGRESS, _EGRESS):
        for message in connection.get_filters(index=index, parent=parent):
            if message.get("kind") == "bpf" and message["handle"]:
                options = message.get_attr("TCA_OPTIONS")
                yield parent, message, str(options.get_attr("TCA_BPF_NAME") or "") if options else ""


def tcx_program_names(index: int) -> list[str]:
    found = set()
    for attachment in _TCX:
        for program, _ in _attached(index, attachment):
            with _by_id(_PROG_GET_FD_BY_ID, program) as descriptor:
                found.add(_name(descriptor))
    return sorted(found)


def detach_all(connection: Any, index: int) -> None:
    """Programs that somebody still holds live on elsewhere. Raises OSError, or what the connection raises."""
    for parent, message, _ in list(_filters(connection, index)):
        where = {"index": index, "parent": parent, "handle": message["handle"], "info": message["info"]}
        connection.tc("del-filter", "bpf", **where)
    for attachment in _TCX:
        for program, link in _attached(index, attachment):
            if link:
                with _by_id(_LINK_GET_FD_BY_ID, link) as descriptor:
                    _call(_LINK_DETACH, struct.pack("=I", descriptor))
            else:
                with _by_id(_PROG_GET_FD_BY_ID, program) as descriptor:
                    _call(_PROG_DETACH, struct.pack("=IIIIIIQ", index, descriptor, attachment, 0, 0, 0, 0))


def _attached(index: int, attachment: int) -> list[tuple[int, int]]:
    """Ids of the programs, each with that of its link, or 0."""
    programs, links = (ctypes.c_uint32 * _MOST)(), (ctypes.c_uint32 * _MOST)()
    places = ctypes.addressof(programs), ctypes.addressof(links)
    query = struct.pack("=IIIIQIIQQQQ", index, attachment, 0, 0, places[0], _MOST, 0, 0, places[1], 0, 0)
    try:
        count = struct.unpack_from("=I", _call(_PROG_QUERY, query), 24)[0]
    except OSError:
        return []
    return [(programs[each], links[each]) for each in range(min(count, _MOST))]


def _name(descriptor: int) -> str:
    info = ctypes.create_string_buffer(_INFO_SIZE)
    _call(_OBJ_GET_INFO, struct.pack("=IIQ", descriptor, _INFO_SIZE, ctypes.addressof(info)))
    return info.raw[_NAME_AT : _NAME_AT + 16].partition(b"\0")[0].decode(errors="replace")


@contextmanager
def _by_id(command: int, number: int) -> Iterator[int]:
    descriptor = _descriptor(command, struct.pack("=III", number, 0, 0))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _descriptor(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return _checked(command, buffer, len(attributes))


def _call(command: int, attributes: bytes) -> bytes:
    """The attributes as the kernel leaves them."""
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    _checked(command, buffer, len(attributes))
    return buffer.raw


def _checked(command: int, buffer: Any, size: int) -> int:
    if _SYSCALL is None:
        raise OSError(38, f"bpf(2) is not known on {platform.machine()}")
    result = int(_libc.syscall(_SYSCALL, command, buffer, size))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf: {os.strerror(number)}")
    return result
