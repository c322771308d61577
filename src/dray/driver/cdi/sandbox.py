"""Hooks for the sandbox of a pod rather than for each container of it.

CDI knows containers alone. A device with this annotation has hooks of kind createRuntime that do something to the
network of the pod: dray's node agent gives the pod a network of its own and runs them once, when that is there, also
for a claim that no container names. Other runtimes run them for each container that has the device, so that they must
bear to be run again.
"""

from __future__ import annotations

from typing import Final

SANDBOX_HOOKS: Final = "dray.dev/sandbox-hooks"
