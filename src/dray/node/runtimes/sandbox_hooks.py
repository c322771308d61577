"""Hooks of CDI devices for the network of a pod: run once for each network, with its path in an OCI bundle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dray.driver.cdi.edits import Hook
from dray.node import network_namespaces
from dray.node.runtimes.cdi_hooks import run_hooks
from dray.node.runtimes.configs import SandboxConfig
from dray.node.runtimes.interface import StartError

_DONE: Final = "network-hooks"
_NONE: Final = "none"
REASON: Final = "FailedCreatePodSandBox"


def are_done(bundle: Path, namespace: str | Path) -> bool:
    """Returns True if the hooks have run for this network, perhaps by an earlier agent, or if there are none.

    CDI files may have been removed since then; a running pod does not need them.
    """
    try:
        noted = (bundle / _DONE).read_text()
        return noted == _NONE or noted == str(network_namespaces.number(namespace))
    except OSError:
        return False


def forget(bundle: Path) -> None:
    with suppress(FileNotFoundError):
        (bundle / _DONE).unlink()


def check_network(config: SandboxConfig, hooks: Sequence[Hook]) -> None:
    if hooks and config.host_network:
        raise StartError(REASON, "a pod with hostNetwork cannot have interfaces of its own: drop it, or the claim")


async def run_sandbox_hooks(hooks: Sequence[Hook], pod_uid: str, namespace: str, bundle: Path) -> None:
    """Runs the hooks of a pod's network. Interrupted or failed hooks run again. Raises StartError."""
    if are_done(bundle, namespace):
        return
    bundle.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not hooks:
        (bundle / _DONE).write_text(_NONE)
        return
    config = {"ociVersion": "1.1.0", "linux": {"namespaces": [{"type": "network", "path": namespace}]}}
    (bundle / "config.json").write_text(json.dumps(config))
    try:
        await run_hooks(hooks, ("createRuntime",), pod_uid, bundle)
    except StartError as error:
        raise StartError(REASON, str(error)) from None
    (bundle / _DONE).write_text(str(network_namespaces.number(namespace)))
