"""CDI spec files: read strictly, checked, and written with the lowest version that their content needs.

A runtime refuses versions that are newer than itself; so a spec claims no more than it uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from dray.driver.cdi.edits import NO_EDITS, ContainerEdits, DeviceNode, Hook, Mount, NetDevice
from dray.driver.cdi.names import check_device_name, check_kind
from dray.driver.errors import InvalidSpec

VERSIONS: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOK_NAMES: Final = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)
_PERMISSIONS: Final = re.compile(r"[rwm]*|none", re.ASCII)
_MAX_ANNOTATIONS: Final = 256 * 1024
_INT64_MAX: Final = 2**63 - 1
_UINT32_MAX: Final = 2**32 - 1


class SpecDevice(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    name: str
    container_edits: ContainerEdits
    annotations: dict[str, str] = {}


class Spec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    kind: str
    devices: tuple[SpecDevice, ...]
    container_edits: ContainerEdits = NO_EDITS
    annotations: dict[str, str] = {}
    cdi_version: str = ""

    def all_edits(self) -> Iterator[tuple[str, ContainerEdits]]:
        """Yields every edit with its place in the spec."""
        yield "containerEdits", self.container_edits
        for index, device in enumerate(self.devices):
            yield f"devices[{index}].containerEdits", device.container_edits

    def minimum_version(self) -> str:
        return max((version for version, needs in _NEEDS if needs(self)), key=VERSIONS.index, default="0.3.0")


def encode(spec: Spec) -> bytes:
    """Encodes a spec as JSON, with the lowest version that its content needs. Raises InvalidSpec."""
    made = msgspec.structs.replace(spec, cdi_version=spec.minimum_version())
    check(made)
    # The version first, as readers expect it.
    document = {"cdiVersion": made.cdi_version, **msgspec.to_builtins(made)}
    return msgspec.json.encode(document)


def decode(content: bytes) -> Spec:
    """Decodes and checks a spec. Raises InvalidSpec."""
    try:
        spec = msgspec.json.decode(content, type=Spec)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSpec(f"not a CDI spec: {error}") from error
    check(spec)
    return spec


def check(spec: Spec) -> None:
    version = spec.cdi_version.removeprefix("v")
    if version not in VERSIONS:
        raise InvalidSpec(f"cdiVersion {spec.cdi_version!r}: must be one of {', '.join(VERSIONS)}")
    needed = spec.minimum_version()
    if VERSIONS.index(version) < VERSIONS.index(needed):
        raise InvalidSpec(f"cdiVersion {spec.cdi_version!r}: the content needs {needed}")
    check_kind(spec.kind)
    if not spec.devices:
        raise InvalidSpec("devices: there must be one at least")
    names = [device.name for device in spec.devices]
    for index, device in enumerate(spec.devices):
        check_device_name(device.name)
        if names.index(device.name) != index:
            raise InvalidSpec(f"devices[{index}]: the name {device.name!r} is there twice")
        if device.container_edits.is_empty:
            raise InvalidSpec(f"devices[{index}].containerEdits: must not be empty")
        _check_annotations(device.annotations, f"devices[{index}].annotations")
    _check_annotations(spec.annotations, "annotations")
    for place, edits in spec.all_edits():
        check_edits(edits, place)


def check_edits(edits: ContainerEdits, place: str) -> None:
    for index, variable in enumerate(edits.env):
        if "=" not in variable[1:]:
            raise InvalidSpec(f"{place}.env[{index}]: {variable!r} is not KEY=value")
    for index, node in enumerate(edits.device_nodes):
        _check_node(node, f"{place}.deviceNodes[{index}]")
    _check_interfaces(edits.net_devices, f"{place}.netDevices")
    for index, mount in enumerate(edits.mounts):
        _check_mount(mount, f"{place}.mounts[{index}]")
    for index, hook in enumerate(edits.hooks):
        _check_hook(hook, f"{place}.hooks[{index}]")
    rdt = edits.intel_rdt
    if rdt is not None and (rdt.clos_id in (".", "..") or "/" in rdt.clos_id or "\n" in rdt.clos_id):
        raise InvalidSpec(f"{place}.intelRdt.closID: {rdt.clos_id!r} is not a file name")
    if any(not 0 <= gid <= _UINT32_MAX for gid in edits.additional_gids):
        raise InvalidSpec(f"{place}.additionalGids: not within 32 bits")


def _check_node(node: DeviceNode, place: str) -> None:
    if not node.path:
        raise InvalidSpec(f"{place}.path: must not be empty")
    if node.type not in ("", "b", "c", "u", "p"):
        raise InvalidSpec(f"{place}.type: {node.type!r} is none of b, c, u, p")
    if not _PERMISSIONS.fullmatch(node.permissions):
        raise InvalidSpec(f"{place}.permissions: {node.permissions!r} must be of the letters r, w, m, or none")
    for name, number, largest in (
        ("major", node.major, _INT64_MAX),
        ("minor", node.minor, _INT64_MAX),
        ("fileMode", node.file_mode, _UINT32_MAX),
        ("uid", node.uid, _UINT32_MAX),
        ("gid", node.gid, _UINT32_MAX),
    ):
        if number is not None and not 0 <= number <= largest:
            raise InvalidSpec(f"{place}.{name}: {number} is out of range")


def _check_interfaces(interfaces: tuple[NetDevice, ...], place: str) -> None:
    seen: set[tuple[str, str]] = set()
    for index, interface in enumerate(interfaces):
        if not interface.host_interface_name:
            raise InvalidSpec(f"{place}[{index}].hostInterfaceName: must not be empty")
        names = {
            ("host", interface.host_interface_name),
            ("container", interface.name or interface.host_interface_name),
        }
        if names & seen:
            raise InvalidSpec(f"{place}[{index}]: the interface is there twice")
        seen |= names


def _check_mount(mount: Mount, place: str) -> None:
    if not mount.host_path or not mount.container_path:
        raise InvalidSpec(f"{place}: needs hostPath and containerPath")


def _check_hook(hook: Hook, place: str) -> None:
    if hook.hook_name not in HOOK_NAMES:
        raise InvalidSpec(f"{place}.hookName: {hook.hook_name!r} is none of {', '.join(sorted(HOOK_NAMES))}")
    if not hook.path:
        raise InvalidSpec(f"{place}.path: must not be empty")
    for index, variable in enumerate(hook.env):
        if "=" not in variable[1:]:
            raise InvalidSpec(f"{place}.env[{index}]: {variable!r} is not KEY=value")


def _check_annotations(annotations: dict[str, str], place: str) -> None:
    if sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items()) > _MAX_ANNOTATIONS:
        raise InvalidSpec(f"{place}: longer than {_MAX_ANNOTATIONS} bytes")


def _any_edits(holds: Callable[[ContainerEdits], bool]) -> Callable[[Spec], bool]:
    return lambda spec: any(holds(edits) for _, edits in spec.all_edits())


_NEEDS: Final[tuple[tuple[str, Callable[[Spec], bool]], ...]] = (
    ("0.4.0", _any_edits(lambda edits: any(mount.type for mount in edits.mounts))),
    ("0.5.0", _any_edits(lambda edits: any(node.host_path for node in edits.device_nodes))),
    ("0.5.0", lambda spec: any(device.name[:1].isdigit() for device in spec.devices)),
    ("0.6.0", lambda spec: "." in spec.kind.partition("/")[2]),
    ("0.6.0", lambda spec: bool(spec.annotations) or any(device.annotations for device in spec.devices)),
    ("0.7.0", _any_edits(lambda edits: edits.intel_rdt is not None or bool(edits.additional_gids))),
    ("1.1.0", _any_edits(lambda edits: bool(edits.net_devices))),
    (
        "1.1.0",
        _any_edits(
            lambda edits: (
                edits.intel_rdt is not None and (bool(edits.intel_rdt.schemata) or edits.intel_rdt.enable_monitoring)
            )
        ),
    ),
)
