"""Hooks of CDI specs, run for a process as a container runtime runs them: with the state of the container as input.

Hooks of kind createContainer and startContainer work on the root file system of a container. A process has that of the
host, where what they make (links, caches of libraries) is there already, so they are left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dray.driver.cdi.edits import Hook
from dray.node.runtimes.interface import StartError

_SECONDS: Final = 30


async def run_hooks(hooks: Iterable[Hook], names: tuple[str, ...], container_id: str, bundle: Path) -> None:
    """Runs the hooks one after the other. A hook that fails before the start keeps the container from starting."""
    state = {"ociVersion": "1.1.0", "id": container_id, "status": "created", "pid": 0, "bundle": str(bundle)}
    for hook in hooks:
        if hook.hook_name in names:
            await _run(hook, json.dumps(state).encode())


async def _run(hook: Hook, state: bytes) -> None:
    environment = dict(entry.partition("=")[::2] for entry in hook.env)
    arguments = hook.args[1:]
    try:
        process = await asyncio.create_subprocess_exec(
            hook.path,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        raise _failed(hook, str(error.strerror)) from None
    try:
        async with asyncio.timeout(hook.timeout or _SECONDS):
            _, errors = await process.communicate(state)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise _failed(hook, f"did not end within {hook.timeout or _SECONDS} s") from None
    if process.returncode:
        raise _failed(hook, f"exit status {process.returncode}: {errors.decode(errors='replace')[-500:].strip()}")


def _failed(hook: Hook, why: str) -> StartError:
    return StartError("CreateContainerError", f"CDI hook {hook.hook_name} {hook.path}: {why}")
