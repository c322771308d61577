"""Container edits of CDI 1.1: environment, device nodes, interfaces, mounts, hooks, groups.

The types are read and written as they are; members that CDI does not know are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec


class _Edit(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    pass


class DeviceNode(_Edit, frozen=True):
    """A device node: `path` in the container, `host_path` on the machine if it differs."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class NetDevice(_Edit, frozen=True):
    """A network interface that moves into the container, renamed if a name is given."""

    host_interface_name: str
    name: str = ""


class Mount(_Edit, frozen=True):
    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


class Hook(_Edit, frozen=True):
    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class IntelRdt(_Edit, frozen=True):
    clos_id: str = msgspec.field(default="", name="closID")
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] = ()
    enable_monitoring: bool = False


class ContainerEdits(_Edit, frozen=True):
    """Edits of a container; `env` has `KEY=value` strings, as `variables` returns them."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self == ContainerEdits()


NO_EDITS: Final = ContainerEdits()


def variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in environment.items())
