"""The network of a pod in the process runtime: that of the machine, or one of its own if a claim needs it.

One of its own has a loopback interface and what hooks of claims put into it, and no way out but those. It is held by a
mount in the directory of the pod, so that it stays while containers start anew.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.node import network_namespaces
from dray.node.cdi import Edits
from dray.node.runtimes import sandbox_hooks
from dray.node.runtimes.configs import SandboxConfig
from dray.node.runtimes.interface import StartError


def path_of(directory: Path) -> Path:
    return directory / "netns"


def of_pod(directory: Path) -> str:
    """The path of its own network; empty where it has that of the machine."""
    path = path_of(directory)
    return str(path) if network_namespaces.holds(path) else ""


def is_ready(directory: Path, config: SandboxConfig) -> bool:
    """Whether there is nothing to do for it, or no more."""
    return not config.cdi_devices or sandbox_hooks.are_done(directory, path_of(directory))


async def set_up(directory: Path, config: SandboxConfig, edits: Edits) -> None:
    """Raises StartError."""
    hooks = edits.sandbox_hooks
    sandbox_hooks.check_network(config, hooks)
    path = path_of(directory)
    if hooks and not network_namespaces.holds(path):
        sandbox_hooks.forget(directory)
        try:
            await asyncio.to_thread(network_namespaces.make, path)
        except OSError as error:
            problem = f"the pod needs a network of its own for the interfaces of its claims: {error}"
            raise StartError(sandbox_hooks.REASON, f"{problem}; run the agent as root") from None
    await sandbox_hooks.run_sandbox_hooks(hooks, config.pod_uid, str(path), directory)


async def address(directory: Path, otherwise: str) -> str:
    """The first address in a network of its own."""
    namespace = of_pod(directory)
    found = await asyncio.to_thread(network_namespaces.addresses, namespace) if namespace else []
    return found[0] if found else otherwise


def remove(directory: Path) -> None:
    network_namespaces.let_go(path_of(directory))
    sandbox_hooks.forget(directory)
