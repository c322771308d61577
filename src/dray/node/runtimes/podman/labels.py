"""Labels by which the containers of a node are found again, and told from those of others on the machine."""

from __future__ import annotations

from typing import Final

ROOT: Final = "io.dray.root"
"""The root directory of the runtime that made the container, because a machine may have several nodes."""
ATTEMPT: Final = "io.dray.attempt"
LOG: Final = "io.dray.log"
DIRECTORY: Final = "io.dray.directory"
"""The directory of the container and its conmon."""
STDIN_ONCE: Final = "io.dray.stdin-once"
SHARED_CPUS: Final = "io.dray.shared-cpus"
"""Marks a container without claimed CPUs. It runs on the shared CPUs, which change with the claims."""
PROCESSES: Final = "io.dray.processes"
"""On a sandbox: whose processes its containers see, `host`, `pod` or `container`."""
POD_UID: Final = "io.kubernetes.pod.uid"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_NAME: Final = "io.kubernetes.pod.name"
CONTAINER: Final = "io.kubernetes.container.name"
SANDBOX: Final = "POD"
"""The container name of a sandbox."""


def arguments(labels: dict[str, str]) -> list[str]:
    return [part for name, value in labels.items() for part in ("--label", f"{name}={value}")]
