"""Programs that a container is given by mounts, where nothing can be mounted: they are found by PATH instead.

Without root and user namespaces, and in containers that may not mount, a program such as a driver's tool would not be
had at all. A directory of the container's own with links to them comes first in its PATH.
"""

from __future__ import annotations

import os
from typing import Any

Spec = dict[str, Any]


def provide(spec: Spec) -> list[str]:
    """Links the programs among the mounts and adds them to PATH. Returns the required mounts that are no programs."""
    searched = spec["environment"].get("PATH", "").split(":")
    missing = []
    for mount in spec["mounts"]:
        source, target = str(mount["host_path"]), str(mount["container_path"])
        if mount["optional"]:
            continue
        if os.path.isfile(source) and os.access(source, os.X_OK) and os.path.dirname(target) in searched:
            os.makedirs(_directory(spec), exist_ok=True)
            os.symlink(source, os.path.join(_directory(spec), os.path.basename(target)))
        else:
            missing.append(target)
    use(spec)
    return missing


def use(spec: Spec) -> None:
    """Adds the directory of linked programs to PATH, if there is one."""
    if os.path.isdir(_directory(spec)):
        environment = spec["environment"]
        environment["PATH"] = ":".join(filter(None, (_directory(spec), environment.get("PATH", ""))))


def _directory(spec: Spec) -> str:
    return os.path.join(os.path.dirname(spec["stage"]), "bin")
