"""The file system as a container sees it: the host's, with the container's mounts in a mount namespace of its own.

Where a mount point does not exist on the host it is not made there: its nearest directory that exists is replaced, in
this namespace, by a directory in memory that holds the same entries and the mount point. If that directory is the
root, the process gets another root. A mount point in a volume of the container is made in the volume: what the
container writes beside it must not end in memory. A device file that the host does not have is made in memory, and
mounted. Device files of other containers are hidden behind a socket, which nobody can open as a file, wherever a mount
shows them.
"""

from __future__ import annotations

import os
import stat

from dray.node.errors import shortened
from dray.node.runtimes.shim import mounted, system

# /usr/lib has thousands of entries on distributions that have all libraries there.
_MOST_ENTRIES = 16384


def enter(mounts: list[dict[str, object]], hidden: list[str], stage: str) -> str:
    """Makes the namespace and its mounts, and hides files. Returns the new root, or "" for that of the host.

    `stage` is an empty directory. Raises OSError, which names the mount that is needed and cannot be made.
    """
    _own_namespace()
    system.mount("tmpfs", stage, "tmpfs", data="mode=755")
    view = _View(stage)
    known = mounted.files(hidden)
    view.hide(hidden)
    for mount in sorted(mounts, key=lambda each: str(each["container_path"]).count("/")):
        device = mount.get("device")
        source = view.make_device(device) if isinstance(device, dict) else str(mount["host_path"])
        target = str(mount["container_path"])
        try:
            view.add(source, target, read_only=bool(mount["read_only"]))
        except OSError as error:
            if not mount["optional"]:
                raise OSError(f"mount path {shortened(target)}: {error.strerror or error}") from None
    # The agent mounted subPaths before anything was hidden.
    view.hide(mounted.places(known))
    return view.root


def _own_namespace() -> None:
    if os.geteuid() == 0:
        system.unshare(system.CLONE_NEWNS)
    else:
        user, group = os.geteuid(), os.getegid()
        system.unshare(system.CLONE_NEWNS | system.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    # Later mounts of the host are visible here; mounts made here are not visible on the host.
    system.mount("none", "/", flags=system.MS_REC | system.MS_SLAVE)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


class _View:
    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._replaced: set[str] = set()
        self._volumes: set[str] = set()
        """Mount points that the container may write to."""
        self._devices = 0
        self.root = ""

    def hide(self, files: list[str]) -> None:
        if not files:
            return
        closed = os.path.join(self._stage, "hidden")
        if not os.path.exists(closed):
            os.mknod(closed, stat.S_IFSOCK)
        for file in files:
            # A file that was removed meanwhile needs no hiding.
            if os.path.exists(file):
                system.bind(closed, file)

    def make_device(self, device: dict[str, int]) -> str:
        path = os.path.join(self._stage, f"device{self._devices}")
        self._devices += 1
        os.mknod(path, device["mode"], device["number"])
        # chmod, because the umask applies to mknod.
        os.chmod(path, device["mode"] & 0o777)
        os.chown(path, device["user"], device["group"])
        return path

    def add(self, source: str, target: str, *, read_only: bool) -> None:
        is_directory = os.path.isdir(source)
        place = self._place(target)
        if not os.path.lexists(place):
            place = self._make(place, is_directory)
        elif os.path.isdir(place) != is_directory:
            kinds = "a directory over a file" if is_directory else "a file over a directory"
            raise OSError(f"mount {source} at {target}: it would put {kinds}")
        system.bind(source, place, read_only=read_only)
        if is_directory and not read_only:
            self._volumes.add(place)

    def _place(self, target: str) -> str:
        """Returns the path of the target, with symbolic links followed within the new root."""
        path = os.path.realpath(self.root + target) if self.root else os.path.realpath(target)
        if self.root and not path.startswith(self.root + "/"):
            # An absolute link leads out of the new root; it means the same path inside it.
            path = self.root + path
        return path

    def _make(self, place: str, is_directory: bool) -> str:
        nearest = os.path.dirname(place)
        while not os.path.isdir(nearest):
            nearest = os.path.dirname(nearest)
        volume = self._volume_of(nearest)
        if volume and _made_in(volume, place[len(volume) + 1 :], is_directory):
            return place
        if nearest == "/":
            self.root = self._copy("/", "root")
            place = self.root + place
        elif nearest not in self._replaced and nearest != self.root:
            self._replace(nearest)
        # Imported here: few containers need it, and it would slow down the start of every shim.
        from dray.process.directories import make_path

        make_path(place if is_directory else os.path.dirname(place))
        if not is_directory:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        return place

    def _volume_of(self, directory: str) -> str:
        """Returns the volume that the directory is in; empty if it is in none."""
        places = self._volumes | self._replaced
        holders = [place for place in places if directory == place or directory.startswith(f"{place}/")]
        deepest = max(holders, key=len, default="")
        return deepest if deepest in self._volumes else ""

    def _replace(self, directory: str) -> None:
        copy = self._copy(directory, f"copy{len(self._replaced)}")
        os.chmod(copy, os.stat(directory).st_mode & 0o7777)
        system.bind(copy, directory)
        self._replaced.add(directory)

    def _copy(self, directory: str, name: str) -> str:
        """Makes a directory in memory with the same entries."""
        entries = os.listdir(directory)
        if len(entries) > _MOST_ENTRIES:
            raise OSError(f"{directory} has {len(entries)} entries; make the mount point on the host")
        copy = os.path.join(self._stage, name)
        os.mkdir(copy)
        for entry in entries:
            source, target = os.path.join(directory, entry), os.path.join(copy, entry)
            if os.path.islink(source):
                os.symlink(os.readlink(source), target)
            elif os.path.isdir(source):
                os.mkdir(target)
                system.bind(source, target)
            else:
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
                system.bind(source, target)
        return copy


def _made_in(volume: str, path: str, is_directory: bool) -> bool:
    """Makes a mount point in the volume. Returns True if that worked; other containers may write to it meanwhile."""
    # Imported here: few containers need it, and it would slow down the start of every shim.
    from dray.process import beneath

    parent, _, name = path.rpartition("/")
    try:
        with beneath.opened(volume) as root, beneath.closing(beneath.make_directories(root, parent, 0o755)) as holder:
            if is_directory:
                os.mkdir(name, 0o755, dir_fd=holder)
            else:
                beneath.write_new(holder, name, b"", 0o644)
    except OSError:
        return False
    return True
