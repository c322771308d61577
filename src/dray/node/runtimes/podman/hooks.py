"""Hooks of CDI specs for podman: files in a directory, as oci-hooks(5) describes them, that apply to one container."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dray.driver.cdi.edits import Hook
from dray.node.runtimes.interface import StartError

# Podman reads these directories by default, but not once it is given another one.
_OF_THE_MACHINE: Final = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")


def write_hooks(hooks: Sequence[Hook], directory: Path) -> list[str]:
    """Writes the hooks into the directory. Returns the podman options that run them."""
    if not hooks:
        return []
    directory.mkdir(mode=0o700, exist_ok=True)
    for number, hook in enumerate(hooks):
        if not os.access(hook.path, os.X_OK):
            raise StartError("CreateContainerError", f"CDI hook {hook.hook_name} {hook.path}: cannot be executed")
        # Podman runs hooks in the order of their file names.
        (directory / f"{number:04}.json").write_text(json.dumps(_file(hook)))
    machine = [folder for folder in _OF_THE_MACHINE if os.path.isdir(folder)]
    return [part for each in (*machine, str(directory)) for part in ("--hooks-dir", each)]


def _file(hook: Hook) -> dict[str, Any]:
    run: dict[str, Any] = {"path": hook.path, "args": list(hook.args), "env": list(hook.env)}
    if hook.timeout:
        run["timeout"] = hook.timeout
    return {"version": "1.0.0", "hook": run, "when": {"always": True}, "stages": [hook.hook_name]}
