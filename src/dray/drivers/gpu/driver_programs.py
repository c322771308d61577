"""Programs of the vendor's driver, and how they are run: `nvidia-smi`, `nvidia-cuda-mps-control`, `nvidia-modprobe`.

A driver with a root of its own was installed for another system: its directories of libraries have another libc,
which the loader of this system cannot use. So a program of such a root is run by the loader of that root, if it has
the one that the program asks for. A script, or a program of a root without a loader, is run by this system, and finds
the vendor's libraries, and no others of the root, in a directory of links.
"""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Final

from dray.drivers.gpu.driver_files import DriverFiles, resolve_inside

_ELF: Final = b"\x7fELF\x02\x01"
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_INTERPRETER: Final = 3


class DriverPrograms:
    """`directory` is for links to libraries; it belongs to this object, and stays for daemons that were started."""

    def __init__(self, files: DriverFiles, directory: Path) -> None:
        self.files = files
        self._directory = directory
        # Claims on different GPUs are prepared at the same time.
        self._linking = threading.Lock()

    def command(self, name: str) -> list[str]:
        """Returns the words that run the program. Raises DriverError if it is not installed."""
        program, root = self.files.needed_program(name), self.files.root
        asked = "" if root == Path("/") else _interpreter(program)
        loader = resolve_inside(root, root / asked.lstrip("/")) if asked else None
        if loader is None or not loader.is_file():
            return [str(program)]
        libraries = ":".join(map(str, self.files.library_directories()))
        return [str(loader), "--library-path", libraries, str(program)]

    def command_in_root(self, name: str) -> list[str]:
        """Returns the words that run a program that needs more of its system than libraries. Raises DriverError."""
        command, root = self.command(name), self.files.root
        is_system = len(command) > 1
        return ["chroot", str(root), f"/{Path(command[-1]).relative_to(root)}"] if is_system else command

    def environment(self) -> dict[str, str]:
        """Returns the environment of the programs, and of what they start."""
        if self.files.root == Path("/"):
            return dict(os.environ)
        self._link()
        libraries = [str(self._directory), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        # At the end: programs of the root are found that this system does not have.
        path = [os.environ.get("PATH", os.defpath), str(self.files.root / "usr/bin")]
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries), "PATH": ":".join(path)}

    def _link(self) -> None:
        """Links that are right stay: a daemon may be about to use them."""
        with self._linking:
            self._directory.mkdir(parents=True, exist_ok=True)
            wanted = self.files.own_libraries()
            for name, library in wanted.items():
                link = self._directory / name
                if not link.is_symlink() or link.readlink() != library:
                    beside = self._directory / f".{name}.{os.getpid()}"
                    beside.unlink(missing_ok=True)
                    beside.symlink_to(library)
                    beside.replace(link)
            for link in self._directory.iterdir():
                if link.name not in wanted and not link.name.startswith("."):
                    link.unlink(missing_ok=True)


def _interpreter(program: Path) -> str:
    """The path of the loader that an ELF program asks for; empty for scripts and static programs."""
    with program.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_ELF):
            return ""
        _, _, _, _, _, table, _, _, _, size, count, *_ = _HEADER.unpack(header)
        for number in range(count):
            file.seek(table + number * size)
            segment = file.read(_SEGMENT.size)
            if len(segment) < _SEGMENT.size:
                return ""
            kind, _, offset, _, _, length, *_ = _SEGMENT.unpack(segment)
            if kind == _INTERPRETER:
                file.seek(offset)
                return file.read(length).rstrip(b"\0").decode(errors="replace")
    return ""
