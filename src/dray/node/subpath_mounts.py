"""Mounts of subPaths: what a container is given of a volume, as a place that no container can replace.

    <root>/pods/<uid>/volume-subpaths/<container>/<number>

A runtime mounts by name, and by then another container may have put a symbolic link in the place of the name. So the
subPath is opened beneath its volume, and what was opened is bound to a place that only root can write; the runtime is
given the place. Once the container has started, it has mounts of its own, and the place is released. An agent that is
killed in between leaves the place to the next one, which releases it when no container is being started any more.

An agent that is not root cannot mount. Its containers have the rights of its own user, and so the path is no secret to
them: they are given the path itself.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from errno import ELOOP, EXDEV
from pathlib import Path
from typing import Final

from dray.node.errors import SetupError, shortened
from dray.node.runtimes.shim import system
from dray.process import beneath

_DIRECTORY: Final = "volume-subpaths"


class SubpathMounts:
    def __init__(self, pods: Path) -> None:
        self._pods = pods

    def make(self, pod_uid: str, container: str, volume: Path, subpath: str) -> Path:
        """Returns a path that a runtime may mount until `release`. Missing directories get the mode of the volume."""
        with beneath.closing(_opened(volume, subpath)) as found:
            if os.geteuid() != 0:
                return Path(os.readlink(f"/proc/self/fd/{found}"))
            try:
                place = self._new_place(pod_uid, container, is_directory=stat.S_ISDIR(os.fstat(found).st_mode))
                system.mount(f"/proc/self/fd/{found}", str(place), flags=system.MS_BIND)
            except OSError as error:
                raise _refusal(subpath, f"cannot be mounted: {error.strerror}") from None
            return place

    def release(self, pod_uid: str, container: str = "") -> None:
        """Unmounts the subPaths of a container, or of all containers of the pod if no name is given."""
        directory = self._pods / pod_uid / _DIRECTORY
        for place in list(directory.glob(f"{container or '*'}/*")):
            with suppress(OSError):
                # Unmount until nothing is mounted there.
                while True:
                    system.unmount(str(place))
        beneath.remove_tree(directory / container)

    def _new_place(self, pod_uid: str, container: str, *, is_directory: bool) -> Path:
        directory = self._pods / pod_uid / _DIRECTORY / container
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = directory / str(len(os.listdir(directory)))
        if is_directory:
            place.mkdir(mode=0o700)
        else:
            place.touch(mode=0o600, exist_ok=False)
        return place


def release_all(root: Path) -> None:
    """Unmounts all subPaths that agents left below this root directory."""
    mounts = SubpathMounts(root / "pods")
    for directory in root.glob(f"pods/*/{_DIRECTORY}"):
        mounts.release(directory.parent.name)


def _opened(volume: Path, subpath: str) -> int:
    try:
        with beneath.opened(volume, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) as root:
            return beneath.make_directories(root, subpath, stat.S_IMODE(os.fstat(root).st_mode))
    except OSError as error:
        if error.errno in (EXDEV, ELOOP):
            problem = "leads out of the volume"
        elif isinstance(error, FileNotFoundError):
            problem = "leads to a file that does not exist"
        else:
            problem = f"cannot be used: {error.strerror}"
        raise _refusal(subpath, problem) from None
    except ValueError as error:
        raise _refusal(repr(subpath), f"cannot be used: {error}") from None


def _refusal(subpath: str, problem: str) -> SetupError:
    return SetupError("CreateContainerConfigError", f"subPath {shortened(subpath)} {problem}")
