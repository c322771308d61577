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
    """Returns the path of the pod's own network namespace; empty if the pod uses the network of the machine."""
    path = path_of(directory)
    return str(path) if network_namespaces.holds(path) else ""


def is_ready(directory: Path, config: SandboxConfig) -> bool:
    """Returns True if the network of the pod is set up, or needs no set-up."""
    return not config.cdi_devices or sandbox_hooks.are_done(directory, path_of(directory))


async def set_up(directory: Path, config: SandboxConfig, edits: Edits) -> None:
    """Makes the network namespace of a pod and runs the hooks of its claims. Raises StartError."""
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
    """Returns the first address in the pod's own network, or `otherwise`."""
    namespace = of_pod(directory)
    found = await asyncio.to_thread(network_namespaces.addresses, namespace) if namespace else []
    return found[0] if found else otherwise


def remove(directory: Path) -> None:
    network_namespaces.let_go(path_of(directory))
    sandbox_hooks.forget(directory)
