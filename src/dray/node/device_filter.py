"""Device filters of cgroup v2: BPF programs that refuse the processes of a control group some devices.

Version 1 has files for device rules (`devices.deny`); version 2 asks a program at every open and mknod instead. The
program is made from the devices that it refuses, and compares type, major and minor number. It stays attached to its
control group until that is removed, whatever becomes of the process that attached it. Programs of control groups above
stay in force: a device is opened only if all of them allow it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_SYSCALLS: Final = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM: Final = 15
_CGROUP_DEVICE_ATTACHED: Final = 6
_ALLOW_MULTI: Final = 2
# Instructions: operation, target and source register, offset, immediate value.
_INSTRUCTION: Final = struct.Struct("<BBhi")
_LOAD_WORD, _AND, _MOVE, _JUMP_UNEQUAL, _EXIT = 0x61, 0x54, 0xB7, 0x55, 0x95
_CONTEXT, _TYPE, _MAJOR, _MINOR = 1, 2, 3, 4
_TYPES: Final = {"b": 1, "c": 2}


class DeviceNumber(NamedTuple):
    type: str
    """`b` or `c`."""
    major: int
    minor: int


def program(denied: Iterable[DeviceNumber]) -> bytes:
    """Returns the instructions of a program that refuses these devices and allows all others."""
    return b"".join(_instructions(denied))


def _instructions(denied: Iterable[DeviceNumber]) -> Iterator[bytes]:
    # The context has the type in the lower half of its first word, then the major and the minor number.
    yield _instruction(_LOAD_WORD, _TYPE, _CONTEXT, 0)
    yield _instruction(_AND, _TYPE, value=0xFFFF)
    yield _instruction(_LOAD_WORD, _MAJOR, _CONTEXT, 4)
    yield _instruction(_LOAD_WORD, _MINOR, _CONTEXT, 8)
    for device in denied:
        # Each comparison that fails leads past the two instructions that refuse.
        yield _instruction(_JUMP_UNEQUAL, _TYPE, offset=4, value=_TYPES[device.type])
        yield _instruction(_JUMP_UNEQUAL, _MAJOR, offset=3, value=device.major)
        yield _instruction(_JUMP_UNEQUAL, _MINOR, offset=2, value=device.minor)
        yield from _answer(0)
    yield from _answer(1)


def _answer(value: int) -> Iterator[bytes]:
    yield _instruction(_MOVE, 0, value=value)
    yield _instruction(_EXIT)


def _instruction(operation: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return _INSTRUCTION.pack(operation, source << 4 | target, offset, value)


def attach(cgroup: Path, denied: Iterable[DeviceNumber]) -> None:
    """Refuses the processes of a control group these devices. Raises OSError."""
    loaded = _load(program(denied))
    try:
        directory = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIIII", directory, loaded, _CGROUP_DEVICE_ATTACHED, _ALLOW_MULTI, 0))
        finally:
            os.close(directory)
    finally:
        os.close(loaded)


@cache
def why_not() -> str:
    """Returns why this process cannot attach filters; empty if it can load them."""
    try:
        os.close(_load(program([DeviceNumber("c", 1, 3)])))
    except OSError as error:
        return str(error.strerror)
    return ""


def _load(instructions: bytes) -> int:
    """Returns the descriptor of the program, after the kernel has verified it. Raises OSError."""
    code, licence = ctypes.create_string_buffer(instructions), ctypes.create_string_buffer(b"Apache-2.0")
    count = len(instructions) // _INSTRUCTION.size
    return _bpf(
        _PROG_LOAD,
        struct.pack(
            "=IIQQIIQII16s",
            _CGROUP_DEVICE_PROGRAM,
            count,
            ctypes.addressof(code),
            ctypes.addressof(licence),
            *(0, 0, 0, 0, 0),
            b"dray_devices",
        ),
    )


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        raise OSError(0, f"dray does not know the bpf system call of {platform.machine()}")
    system = ctypes.CDLL(None, use_errno=True)
    size = len(attributes)
    numbers = map(ctypes.c_long, (number, command))
    result = int(system.syscall(*numbers, ctypes.create_string_buffer(attributes, size), ctypes.c_long(size)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
