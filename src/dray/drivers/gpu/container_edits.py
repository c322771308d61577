"""What a container gets of a GPU by CDI: device nodes, the driver's libraries and programs, hooks of the toolkit.

`common` is for the whole claim: a container gets it once, however many of the claim's devices it uses. `of` is for one
device, with device files that all devices need: runtimes take each path once. Files are looked for at each prepare,
since the driver may have been replaced meanwhile. Where the container toolkit is installed, its hooks make links to
libraries and update the linker cache in the container. Elsewhere libraries are mounted under all their names, in the
directories that loaders of all distributions look in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.driver import ClaimFailed, ContainerEdits, DeviceNode, Hook, Mount
from dray.drivers.gpu.device_files import DeviceFiles
from dray.drivers.gpu.driver_files import CONTAINER_LIBRARIES, DriverFiles, MountedFile
from dray.drivers.gpu.driver_programs import DriverPrograms
from dray.drivers.gpu.options import GpuOptions

_NEEDED_BY_CUDA: Final = ("nvidiactl", "nvidia-uvm")
_IF_THERE: Final = (*_NEEDED_BY_CUDA, "nvidia-uvm-tools", "nvidia-modeset")
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "bind")
# By the name of the program, what comes before the name of the hook.
_HOOK_PROGRAMS: Final = {"nvidia-cdi-hook": (), "nvidia-ctk": ("hook",)}


@dataclass(frozen=True)
class GpuEdits:
    programs: DriverPrograms
    options: GpuOptions
    driver_version: str

    @property
    def files(self) -> DriverFiles:
        return self.programs.files

    def common(self) -> ContainerEdits:
        """Raises ClaimFailed where the libraries are missing."""
        libraries = self.files.libraries(self.driver_version)
        if not libraries:
            raise ClaimFailed(
                f"{self.files.library_directory} has no libraries of the driver's version {self.driver_version}: "
                "the vendor's driver may have been replaced; restart this one"
            )
        return ContainerEdits(
            # Whatever the image says, nothing but CDI gives it GPUs.
            env=("NVIDIA_VISIBLE_DEVICES=void",),
            mounts=tuple(self._mounts(libraries)),
            hooks=tuple(self._hooks(libraries)),
        )

    def of(self, minor: int, further_nodes: Sequence[DeviceNode] = ()) -> ContainerEdits:
        """Returns the edits for a device of the GPU with that minor number.

        Raises ClaimFailed where the GPU's device file is missing and cannot be made.
        """
        files = DeviceFiles(self.programs, self.options)
        paths = [files.needed(f"nvidia{minor}")]
        paths += [path for name in _IF_THERE if (path := files.find(name)) is not None]
        return ContainerEdits(device_nodes=(*map(_node, paths), *further_nodes))

    def missing_files(self) -> list[str]:
        """Returns the device files that CUDA needs and that are missing and cannot be made."""
        files = DeviceFiles(self.programs, self.options)
        return [str(self.options.dev / name) for name in _NEEDED_BY_CUDA if files.find(name) is None]

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
        if self._hook_program is not None:
            return
        for file in libraries:
            for directory in CONTAINER_LIBRARIES:
                for name in (file.host.name, *file.links):
                    if f"{directory}/{name}" != file.container:
                        yield Mount(str(file.host), f"{directory}/{name}", _READ_ONLY)

    def _hooks(self, libraries: Sequence[MountedFile]) -> Iterator[Hook]:
        found = self._hook_program
        if found is None:
            return
        program, words = found
        links = [link for file in libraries for link in _links(file)]
        if links:
            yield Hook("createContainer", str(program), (*words, "create-symlinks", *links))
        folder = ("--folder", CONTAINER_LIBRARIES[0])
        yield Hook("createContainer", str(program), (*words, "update-ldcache", *folder))


def _node(path: Path) -> DeviceNode:
    inside = f"/dev/{path.name}"
    return DeviceNode(inside, "" if str(path) == inside else str(path))


def _links(file: MountedFile) -> Iterator[str]:
    directory, _, name = file.container.rpartition("/")
    for link in file.links:
        yield "--link"
        yield f"{name}::{directory}/{link}"
