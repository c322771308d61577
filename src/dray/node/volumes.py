"""Volumes of a pod on this machine: directories and files that its containers mount.

    <pod directory>/volumes/<name>

emptyDir, hostPath, persistentVolumeClaim (a symbolic link to the directory of its volume), configMap, secret,
downwardAPI and projected (with service account tokens). The last four follow objects of the API server, and containers
mount them read-only, whatever the pod says.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from dray.api.objects import Object, key_of, mapping, mappings, spec_of, uid_of
from dray.api.validation import paths
from dray.node.errors import SetupError, described, shortened
from dray.node.field_references import field_value, resource_value
from dray.node.pod_objects import PodObjects
from dray.node.runtimes.cancelling import finished
from dray.node.security_context import common_user
from dray.node.volume_files import File, write_files
from dray.process import beneath
from dray.process.directories import make_path

PERSISTENT: Final = "persistent-volumes"
"""Directory below the agent's root for volumes that were made for claims."""
_FOLLOWING: Final = ("configMap", "secret", "downwardAPI", "projected")
_FAILED: Final = "FailedMount"
_REFUSED: Final = "nodes without a kubelet do not support volumes of this kind"


class Volumes:
    def __init__(self, objects: PodObjects, root: Path, facts: Mapping[str, str], node: Mapping[str, str]) -> None:
        self._objects = objects
        self._root = root
        self._facts = facts
        self._node = node

    def directory(self, pod_uid: str) -> Path:
        return self._root / pod_uid / "volumes"

    async def make(self, pod: Object, *, following: bool = False) -> None:
        """Makes all volumes of a pod; with `following`, only those that follow objects of the API server.

        Raises SetupError, which names the volume that cannot be made.
        """
        for volume in mappings(spec_of(pod).get("volumes")):
            if not following or any(kind in volume for kind in _FOLLOWING):
                name = str(volume["name"])
                for problem in paths.no_nul(volume, ""):
                    raise SetupError(_FAILED, f"volume {name}: {problem.field.removeprefix('.')}: {problem.detail}")
                try:
                    await self._make(pod, volume)
                except OSError as error:
                    raise SetupError(_FAILED, f"volume {name}: {described(error)}") from None

    def is_read_only(self, pod: Object, name: str) -> bool:
        """Returns True if containers never write to the volume, whatever their mounts say."""
        return any(kind in _volume(pod, name) for kind in _FOLLOWING)

    def path(self, pod: Object, name: str) -> Path:
        """Returns the path of a volume on this machine."""
        volume = _volume(pod, name)
        if host := mapping(volume.get("hostPath")):
            return Path(str(host["path"]))
        place = self.directory(uid_of(pod)) / name
        return place.readlink() if _is_claimed(volume) else place

    async def _make(self, pod: Object, volume: Object) -> None:
        name = str(volume["name"])
        place = self.directory(uid_of(pod)) / name
        if "hostPath" in volume:
            source = mapping(volume["hostPath"])
            if not source.get("type"):
                # The source has no type: container runtimes make a missing directory.
                _make_directory(Path(str(source["path"])))
            _host_path(source)
        elif _is_claimed(volume):
            source = await self._objects.claimed_source(pod, volume)
            _make_for_all(source)
            _host_path(source)
            place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(str(source["path"]))
            return
        elif "emptyDir" in volume:
            place.mkdir(mode=0o777, parents=True, exist_ok=True)
            with beneath.opened(place) as made:
                os.fchmod(made, 0o777)
        elif any(kind in volume for kind in _FOLLOWING):
            files = await self._files(pod, volume)
            place.mkdir(mode=0o755, parents=True, exist_ok=True)
            # A pod may ask for files in thousands of directories.
            await finished(asyncio.to_thread(write_files, place, files))
        else:
            kind = next((kind for kind in volume if kind != "name"), "nothing")
            raise SetupError(_FAILED, f"volume {name} ({kind}): {_REFUSED}")
        group = mapping(spec_of(pod).get("securityContext")).get("fsGroup")
        if group is not None and "hostPath" not in volume and os.geteuid() == 0:
            # A container may have made many files in it.
            await asyncio.to_thread(_give_to_group, place, int(group))

    async def _files(self, pod: Object, volume: Object) -> dict[str, File]:
        if "projected" in volume:
            projected = mapping(volume["projected"])
            mode = _mode(projected, "defaultMode", 0o644)
            found: dict[str, File] = {}
            for source in mappings(projected.get("sources")):
                found |= await self._source(pod, source, mode)
            return found
        kind = next(kind for kind in _FOLLOWING if kind in volume)
        source = mapping(volume[kind])
        if kind == "secret":
            source = {**source, "name": source.get("secretName")}
        return await self._source(pod, {kind: source}, _mode(source, "defaultMode", 0o644))

    async def _source(self, pod: Object, source: Object, mode: int) -> dict[str, File]:
        for member, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if reference := mapping(source.get(member)):
                return await self._keys(pod, kind, reference, mode)
        if api := mapping(source.get("downwardAPI")):
            return {str(item["path"]): self._downward(pod, item, mode) for item in mappings(api.get("items"))}
        if token := mapping(source.get("serviceAccountToken")):
            seconds = int(token.get("expirationSeconds") or 3600)
            text = await self._objects.token(pod, str(token.get("audience") or ""), seconds)
            user = common_user(pod)
            # As in a kubelet: a token is private if the user of the containers is known.
            private = user is not None or mapping(spec_of(pod).get("securityContext")).get("fsGroup") is not None
            return {str(token["path"]): File(text.encode(), 0o600 if private else mode, user)}
        kind = next(iter(source), "nothing")
        raise SetupError(_FAILED, f"projected volume with {kind}: {_REFUSED}")

    async def _keys(self, pod: Object, kind: str, reference: Object, mode: int) -> dict[str, File]:
        optional = bool(reference.get("optional"))
        name = str(reference.get("name"))
        data = await self._objects.data(kind, key_of(pod)[0], name, optional=optional)
        items = mappings(reference.get("items"))
        if data is None:
            return {}
        if not items:
            return {key: File(value, mode) for key, value in data.items()}
        found = {}
        for item in items:
            if item["key"] in data:
                found[str(item["path"])] = File(data[item["key"]], _mode(item, "mode", mode))
            elif not optional:
                raise SetupError(_FAILED, f"{kind} {name} has no key {item['key']}")
        return found

    def _downward(self, pod: Object, item: Object, mode: int) -> File:
        if field := mapping(item.get("fieldRef")):
            text = field_value(pod, str(field.get("fieldPath")), self._facts)
        else:
            text = resource_value(pod, mapping(item.get("resourceFieldRef")), {}, self._node)
        return File(text.encode(), _mode(item, "mode", mode))


def _make_for_all(source: Object) -> None:
    """Makes the directory of a volume for a claim; containers of any user may write to it."""
    path = Path(str(source["path"]))
    if source.get("type") == "DirectoryOrCreate" and not path.exists():
        make_path(path)
        with beneath.opened(path) as made:
            os.fchmod(made, 0o777)


def _volume(pod: Object, name: str) -> Object:
    volume = next((volume for volume in mappings(spec_of(pod).get("volumes")) if volume["name"] == name), None)
    if volume is None:
        raise SetupError("CreateContainerConfigError", f"volume {name} is not in the pod")
    return volume


def _is_claimed(volume: Object) -> bool:
    return "persistentVolumeClaim" in volume or "ephemeral" in volume


def _give_to_group(place: Path, group: int) -> None:
    """Gives the group access to the content of the volume, and to files that are made in it later."""
    with beneath.opened(place) as root:
        beneath.give_to_group(root, ".", group, 0o060, 0o2070)
        for directory, entry in beneath.walk(root):
            # A container may remove or rename it meanwhile.
            with suppress(FileNotFoundError):
                beneath.give_to_group(directory, entry.name, group, 0o060, 0o2070)


def _mode(source: Object, name: str, default: int) -> int:
    given = source.get(name)
    return default if given is None else int(given)


def _make_directory(path: Path) -> None:
    if not path.exists():
        make_path(path, 0o755)


def _host_path(source: Object) -> None:
    path, kind = Path(str(source["path"])), str(source.get("type") or "")
    if kind == "DirectoryOrCreate":
        make_path(path, 0o755)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644)
    checks = {
        "Directory": path.is_dir,
        "DirectoryOrCreate": path.is_dir,
        "File": path.is_file,
        "FileOrCreate": path.is_file,
        "Socket": path.is_socket,
        "CharDevice": path.is_char_device,
        "BlockDevice": path.is_block_device,
    }
    if not checks.get(kind, path.exists)():
        raise SetupError(_FAILED, f"hostPath {shortened(str(path))} is not {kind or 'there'}")
