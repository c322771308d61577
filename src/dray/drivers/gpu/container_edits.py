"""What a container gets of a GPU by CDI: device nodes, the driver's libraries and programs, hooks of the toolkit.

Files are looked for at each prepare, since the driver may have been replaced meanwhile. Where the container toolkit
is installed, its hooks make links to libraries and update the linker cache in the container; elsewhere libraries are
mounted under all their names.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.driver import ClaimFailed, ContainerEdits, DeviceNode, Hook, Mount
from dray.drivers.gpu.driver_files import DriverFiles, MountedFile
from dray.drivers.gpu.options import GpuOptions

_NEEDED: Final = ("nvidiactl", "nvidia-uvm")
_IF_THERE: Final = ("nvidia-uvm-tools", "nvidia-modeset")
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "bind")
# By the name of the program, what comes before the name of the hook.
_HOOK_PROGRAMS: Final = {"nvidia-cdi-hook": (), "nvidia-ctk": ("hook",)}


@dataclass(frozen=True)
class GpuEdits:
    files: DriverFiles
    options: GpuOptions
    driver_version: str

    def of(self, minor: int, further_nodes: Sequence[DeviceNode] = ()) -> ContainerEdits:
        """For a device of the GPU with that minor number. Raises ClaimFailed where a node or libraries are missing."""
        libraries = self.files.libraries(self.driver_version)
        if not libraries:
            raise ClaimFailed(
                f"{self.files.library_directory} has no libraries of the driver's version {self.driver_version}: "
                "the vendor's driver may have been replaced; restart this one"
            )
        return ContainerEdits(
            # Whatever the image says, nothing but CDI gives it GPUs.
            env=("NVIDIA_VISIBLE_DEVICES=void",),
            device_nodes=(*self._nodes(minor), *further_nodes),
            mounts=tuple(self._mounts(libraries)),
            hooks=tuple(self._hooks(libraries)),
        )

    def _nodes(self, minor: int) -> Iterator[DeviceNode]:
        for name in (f"nvidia{minor}", *_NEEDED, *_IF_THERE):
            path = self.options.dev / name
            if _is_device(path):
                yield DeviceNode(f"/dev/{name}", "" if str(path) == f"/dev/{name}" else str(path))
            elif name not in _IF_THERE:
                raise ClaimFailed(
                    f"{path} is no device file: the kernel modules nvidia and nvidia-uvm must be loaded, "
                    "and nvidia-modprobe run"
                )

    @property
    def _hook_program(self) -> tuple[Path, tuple[str, ...]] | None:
        for name, words in _HOOK_PROGRAMS.items():
            path = self.files.program(name)
            if path is not None:
                return self.files.host_path(path), (name, *words)
        return None

    def _mounts(self, libraries: Sequence[MountedFile]) -> Iterator[Mount]:
        for file in (*libraries, *self.files.programs(), *self.files.further_files(self.driver_version)):
            yield Mount(str(file.host), file.container, _READ_ONLY)
        if self._hook_program is None:
            for file in libraries:
                for link in file.links:
                    yield Mount(str(file.host), f"{self.files.container_libraries}/{link}", _READ_ONLY)

    def _hooks(self, libraries: Sequence[MountedFile]) -> Iterator[Hook]:
        found = self._hook_program
        if found is None:
            return
        program, words = found
        links = [each for file in libraries for each in _links(file)]
        if links:
            yield Hook("createContainer", str(program), (*words, "create-symlinks", *links))
        folder = ("--folder", self.files.container_libraries)
        yield Hook("createContainer", str(program), (*words, "update-ldcache", *folder))


def _links(file: MountedFile) -> Iterator[str]:
    directory, _, name = file.container.rpartition("/")
    for link in file.links:
        yield "--link"
        yield f"{name}::{directory}/{link}"


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False
