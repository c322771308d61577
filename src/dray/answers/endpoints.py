"""Finds the API server from arguments, the environment or this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.client.endpoint import Endpoint


def find_endpoint(kubeconfig: Path | None, context: str) -> Endpoint:
    """Returns the server that the arguments, $KUBECONFIG or ~/.kube/config name.

    Without them it returns the server of the pod in which this process runs, or the cluster that `dray up` runs here.
    """
    from dray.client.endpoint import in_cluster
    from dray.client.errors import ConfigError
    from dray.client.kubeconfig import Kubeconfig

    try:
        config = Kubeconfig.load([kubeconfig] if kubeconfig else ())
    except ConfigError as error:
        if not str(error).startswith("no kubeconfig"):
            raise
        named = kubeconfig or context or os.environ.get("KUBECONFIG")
        if "KUBERNETES_SERVICE_HOST" in os.environ and not (kubeconfig or context):
            return in_cluster()
        found = None if named else _running_here()
        if found is None:
            raise ConfigError(
                f"{error}; give --kubeconfig FILE or set KUBECONFIG (`dray up` and `dray apiserver` write one)"
            ) from None
        config = Kubeconfig.load([found])
    name = context or config.current_context
    if name not in config.contexts:
        problem = f"has no context {name!r}" if name else "names no current context"
        choice = f"choose one with --context: {', '.join(config.contexts)}" if config.contexts else "it has none at all"
        raise ConfigError(f"the kubeconfig {problem}; {choice}")
    return config.endpoint(name)


def _running_here() -> Path | None:
    """Returns the kubeconfig of the cluster that this user runs on this machine; None if there is none."""
    from dray.client.errors import ConfigError
    from dray.process import up_state

    found = up_state.running()
    if len(found) > 1:
        choices = ", ".join(f"--kubeconfig {cluster.kubeconfig} ({cluster.url})" for cluster in found)
        raise ConfigError(f"{len(found)} clusters run here; choose one: {choices}")
    return Path(found[0].kubeconfig) if found else None
