"""The vendor's files on this machine: libraries and programs, found without the linker's cache.

The driver is installed in the system, or below a root of its own: by a container of the GPU operator, by the image of
a cloud's machines, or as a container sees the host. `find_driver_files` takes the first root that has the management
library; `libraries` and `programs` are what containers get of it, with the paths at which they expect them. Links are
followed within the root: packages of Debian have absolute ones.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.driver import DriverError

MANAGEMENT_LIBRARY: Final = "libnvidia-ml.so.1"
_ROOTS: Final = (
    "/",
    "/run/nvidia/driver",
    "/driver-root",
    "/host",
    "/home/kubernetes/bin/nvidia",
    "/opt/nvidia",
    "/usr/local/nvidia",
)
_LIBRARIES: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib",
    "lib",
    "run/opengl-driver/lib",
)
_PROGRAM_DIRECTORIES: Final = (
    "usr/bin",
    "usr/sbin",
    "bin",
    "sbin",
    "usr/local/bin",
    "opt/bin",
    "run/current-system/sw/bin",
)
_VENDOR: Final = re.compile(r"lib(cuda|nvcuvid|nvidia-[\w-]+)\.so")
_VERSIONED: Final = re.compile(r"lib(cuda|nvcuvid|nvidia-[\w-]+)\.so\.\d{3}\.\d")
_OWN_LIBRARIES: Final = ("libcuda", "libnv")
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
CONTAINER_LIBRARIES: Final = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64")
"""Library directories of container images: Debian and Ubuntu first, then Fedora, RHEL, SUSE and Arch."""
_CONTAINER_PROGRAMS: Final = "/usr/bin"
# More links than a path has in practice; a circle of them has no end.
_MOST_LINKS: Final = 40


@dataclass(frozen=True, slots=True)
class MountedFile:
    """A file of this machine, and where a container finds it. `links` are other names of it, in the same directory."""

    host: Path
    container: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class DriverFiles:
    """`root` has the driver; `library_directory` is the directory in it with the files that libraries are links to.

    `host_root` is the root as the container runtime sees it, which differs where this process is in a container.
    """

    root: Path
    management_library: Path
    host_root: Path

    @property
    def library_directory(self) -> Path:
        return self.management_library.parent

    def host_path(self, path: Path) -> Path:
        """Converts a path in this container to the path on the host."""
        return self.host_root / path.relative_to(self.root) if path.is_relative_to(self.root) else path

    def libraries(self, version: str) -> list[MountedFile]:
        """Returns the libraries of this driver version, each with the links to it.

        If no file name contains a version, all of the vendor's libraries are returned.
        """
        listed = _listed(self.library_directory)
        has_versions = any(_VERSIONED.match(path.name) for path in listed)
        found: dict[str, Path] = {}
        links: dict[str, list[str]] = {}
        for path in listed:
            is_own = path.name.endswith(f".so.{version}") if has_versions else bool(_VENDOR.match(path.name))
            if is_own and not path.is_symlink():
                found[path.name] = path
            elif path.is_symlink() and ".so" in path.name:
                links.setdefault(resolve_inside(self.root, path).name, []).append(path.name)
        if not found and not has_versions:
            # A link leads to a file with a name of its own.
            found[MANAGEMENT_LIBRARY] = self.management_library
        return [
            MountedFile(self.host_path(path), f"{CONTAINER_LIBRARIES[0]}/{name}", tuple(sorted(links.get(name, ()))))
            for name, path in sorted(found.items())
        ]

    def programs(self) -> list[MountedFile]:
        found = ((name, self.program(name)) for name in _PROGRAMS)
        return [
            MountedFile(self.host_path(path), f"{_CONTAINER_PROGRAMS}/{name}")
            for name, path in found
            if path is not None
        ]

    def further_files(self, version: str) -> list[MountedFile]:
        """Firmware, and the socket of the persistence daemon."""
        firmware = (self.root / "lib/firmware/nvidia" / version, self.root / "usr/lib/firmware/nvidia" / version)
        paths = [path for directory in firmware for path in _listed(directory) if path.suffix == ".bin"]
        socket = self.root / "run/nvidia-persistenced/socket"
        paths += [socket] if socket.exists() else []
        return [MountedFile(self.host_path(path), "/" + str(path.relative_to(self.root))) for path in paths]

    def program(self, name: str) -> Path | None:
        """A program of the driver or of the container toolkit; the latter may be beside the driver's root."""
        roots = [self.root, *(root for root in (Path("/"),) if name not in _PROGRAMS and root != self.root)]
        for root in roots:
            for directory in _PROGRAM_DIRECTORIES:
                path = resolve_inside(root, root / directory / name)
                if path.is_file() and os.access(path, os.X_OK):
                    return path
        return None

    def needed_program(self, name: str) -> Path:
        path = self.program(name)
        if path is None:
            raise DriverError(f"there is no {name} below {self.root}: install the driver's programs, or set driverRoot")
        return path

    def library_directories(self) -> list[Path]:
        """Returns all directories that programs of the root need libraries from, the vendor's first."""
        found = (resolve_inside(self.root, directory) for directory in _library_directories(self.root))
        return list(dict.fromkeys([self.library_directory, *(directory for directory in found if directory.is_dir())]))

    def own_libraries(self) -> dict[str, Path]:
        """The vendor's libraries by all their names, and none of the system that they are installed in."""
        return {
            path.name: resolve_inside(self.root, path)
            for path in _listed(self.library_directory)
            if path.name.startswith(_OWN_LIBRARIES) and ".so" in path.name
        }


def find_driver_files(root: str = "", host_root: str = "") -> DriverFiles:
    """Raises DriverError where no root has the management library."""
    system = Path("/")
    places = [] if root else [(system, directory) for directory in _linker_directories()]
    for found in [Path(root).absolute()] if root else [Path(each) for each in _ROOTS]:
        places += [(found, directory) for directory in _library_directories(found)]
    for found, directory in places:
        library = resolve_inside(found, directory / MANAGEMENT_LIBRARY)
        if library.exists():
            named = library.with_name(MANAGEMENT_LIBRARY)
            library = named if named.exists() else library
            return DriverFiles(found, library, Path(host_root or found).absolute())
    where = f"below {root}" if root else f"in the system, nor below {', '.join(_ROOTS[1:])}"
    raise DriverError(f"there is no NVIDIA driver on this machine: no {MANAGEMENT_LIBRARY} {where}")


def _linker_directories() -> Iterator[Path]:
    """Directories that the linker of this system is told to look in: LD_LIBRARY_PATH, and /etc/ld.so.conf.d."""
    for directory in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if directory.startswith("/"):
            yield Path(directory)
    for path in _listed(Path("/etc/ld.so.conf.d")):
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError:
            continue
        yield from (Path(line.strip()) for line in lines if line.startswith("/"))


def _library_directories(root: Path) -> Iterator[Path]:
    for directory in _LIBRARIES:
        yield root / directory
    # Packages of some distributions have a directory for each version: usr/lib/nvidia-580.
    yield from sorted((root / "usr/lib").glob("nvidia*"))


def resolve_inside(root: Path, path: Path) -> Path:
    """Follows symbolic links as a process with that root does: absolute ones start at the root."""
    if root == Path("/"):
        return Path(os.path.realpath(path))
    waiting, found = [*reversed(path.relative_to(root).parts)], root
    for _ in range(_MOST_LINKS):
        while waiting:
            name = waiting.pop()
            if name == "..":
                found = found.parent if found != root else root
                continue
            if (found / name).is_symlink():
                break
            found = found / name
        else:
            return found
        target = Path(os.readlink(found / name))
        parts = target.parts[1:] if target.is_absolute() else target.parts
        found = root if target.is_absolute() else found
        waiting += reversed(parts)
    return path


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []
