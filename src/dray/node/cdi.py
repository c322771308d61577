"""Container Device Interface: from device ids such as vendor/class=name to the edits of a container.

Specs are JSON or YAML files in directories; a device in a later directory wins over one in an earlier directory, and
two in one directory are a conflict. Edits of a spec apply once, those of its devices in the order of the ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from dray.driver.cdi.edits import ContainerEdits, DeviceNode, Hook, Mount, NetDevice
from dray.driver.cdi.joined_environment import joined
from dray.driver.cdi.sandbox import SANDBOX_HOOKS
from dray.driver.cdi.spec import Spec, SpecDevice, check
from dray.driver.errors import InvalidSpec
from dray.process.beneath import read_regular

DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))
_LARGEST = 16 << 20
_SANDBOX_KIND = "createRuntime"


class CdiError(Exception):
    """Raised if devices cannot be given to a container; names each device with the reason."""


@dataclass(frozen=True, slots=True)
class Edits:
    """The merged edits of all CDI devices of a container."""

    environment: Mapping[str, str] = field(default_factory=dict)
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    groups: tuple[int, ...] = ()
    sandbox_hooks: tuple[Hook, ...] = ()
    """Hooks for the network of the pod; they run once for all its containers."""


def resolve(ids: Sequence[str], directories: Sequence[Path] = DIRECTORIES) -> Edits:
    """Merges the edits of the devices. Raises CdiError that names every device that cannot be found, and why."""
    if not ids:
        return Edits()
    unreadable: list[str] = []
    found, problems = _devices(directories, unreadable)
    missing = [device_id for device_id in ids if device_id not in found]
    if missing:
        where = ", ".join(map(str, directories))
        reasons = [problems.get(device_id, f"no CDI spec has device {device_id}") for device_id in missing]
        text = "; ".join([*reasons, *unreadable])
        raise CdiError(f"{text} (looked in {where})")
    edits: list[ContainerEdits] = []
    sandbox: list[Hook] = []
    seen: set[int] = set()
    for device_id in ids:
        spec, device = found[device_id]
        if id(spec) not in seen:
            seen.add(id(spec))
            edits.append(spec.container_edits)
        own = device.container_edits
        if SANDBOX_HOOKS in device.annotations:
            sandbox += [hook for hook in own.hooks if hook.hook_name == _SANDBOX_KIND]
            others = tuple(hook for hook in own.hooks if hook.hook_name != _SANDBOX_KIND)
            own = msgspec.structs.replace(own, hooks=others)
        edits.append(own)
    merged = _merged(edits)
    lists = joined(found[device_id][1].annotations for device_id in ids)
    return replace(merged, environment={**merged.environment, **lists}, sandbox_hooks=tuple(sandbox))


def environments(ids: Iterable[str], directories: Sequence[Path] = DIRECTORIES) -> dict[str, Mapping[str, str]]:
    """Returns the variables that each device sets in a container; devices that cannot be found are left out."""
    found, _ = _devices(directories, [])
    specs = {device_id: found[device_id] for device_id in ids if device_id in found}
    return {
        each: _merged([spec.container_edits, device.container_edits]).environment
        for each, (spec, device) in specs.items()
    }


def _devices(
    directories: Iterable[Path], unreadable: list[str]
) -> tuple[dict[str, tuple[Spec, SpecDevice]], dict[str, str]]:
    """Returns the devices and the unusable devices' problems, by id; adds unreadable files to `unreadable`."""
    found: dict[str, tuple[Spec, SpecDevice]] = {}
    problems: dict[str, str] = {}
    for directory in directories:
        here: dict[str, Path] = {}
        for path in sorted(directory.glob("*")) if directory.is_dir() else ():
            if path.suffix not in (".json", ".yaml"):
                continue
            try:
                spec = read(path)
            except CdiError as error:
                unreadable.append(str(error))
                continue
            for device in spec.devices:
                name = f"{spec.kind}={device.name}"
                if name in here:
                    problems[name] = f"device {name} is defined in {here[name]} and in {path}"
                    found.pop(name, None)
                else:
                    here[name] = path
                    found[name] = (spec, device)
    return found, problems


def read(path: Path) -> Spec:
    """Reads a CDI spec. Raises CdiError if the file is not one."""
    try:
        data = read_regular(path, _LARGEST, links=True)
        content = msgspec.json.decode(data) if path.suffix == ".json" else _yaml(data)
        spec = msgspec.convert(content, Spec)
        check(spec)
        return spec
    except OSError as error:
        raise CdiError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError, msgspec.MsgspecError, InvalidSpec) as error:
        raise CdiError(f"{path}: {error}") from None


def _merged(edits: Iterable[ContainerEdits]) -> Edits:
    environment: dict[str, str] = {}
    nodes: dict[str, DeviceNode] = {}
    interfaces: dict[str, NetDevice] = {}
    mounts: dict[str, Mount] = {}
    hooks: list[Hook] = []
    groups: list[int] = []
    for each in edits:
        for entry in each.env:
            name, _, value = entry.partition("=")
            environment[name] = value
        nodes |= {node.path: node for node in each.device_nodes}
        interfaces |= {device.host_interface_name: device for device in each.net_devices}
        mounts |= {mount.container_path: mount for mount in each.mounts}
        hooks += each.hooks
        groups += [group for group in each.additional_gids if group and group not in groups]
    ordered = sorted(mounts.values(), key=lambda mount: mount.container_path.rstrip("/").count("/"))
    return Edits(
        environment, tuple(nodes.values()), tuple(interfaces.values()), tuple(ordered), tuple(hooks), tuple(groups)
    )


def _yaml(data: bytes) -> object:
    # Drivers write JSON: most nodes never need the reader of YAML.
    from dray.yaml import documents
    from dray.yaml.text import ManifestError

    try:
        return documents.first(data)[0]
    except ManifestError as error:
        raise ValueError(str(error)) from None
