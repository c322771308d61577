"""The kernel module of the NVIDIA driver: whether it was loaded again.

The kernel makes the directories of a module anew when the module is loaded. They are held open, so that a new directory
never has the number of the old one; this does not keep the module from being unloaded. Times of these directories say
nothing: the kernel states when they were last read into memory.
"""

from __future__ import annotations

import os
from pathlib import Path


class KernelModule:
    def __init__(self, proc: Path, sysfs: Path) -> None:
        self._paths = (sysfs / "module/nvidia", proc / "driver/nvidia")
        self._held: dict[Path, int] = {}

    def follow(self) -> bool:
        """Returns whether the module was loaded again since the last call. False also if the kernel does not tell."""
        return any([self._is_new(path) for path in self._paths])

    def _is_new(self, path: Path) -> bool:
        try:
            found = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            # It may be unloaded just now: the directory that comes next is compared with the last one.
            return False
        before = self._held.get(path)
        if before is not None and os.path.sameopenfile(before, found):
            os.close(found)
            return False
        self._held[path] = found
        if before is None:
            return False
        os.close(before)
        return True

    def close(self) -> None:
        for held in self._held.values():
            os.close(held)
        self._held.clear()
