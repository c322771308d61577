"""Functions of upper layers that views call. `dray.cli.page` fills them in; a missing one is None.

A view that needs logic of the command line adds a field here and a line there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Services:
    cluster_name: str = "dray"
    """What the page calls the cluster: the context of the kubeconfig, or dray."""
    examples: Path | None = None
    """The directory of the examples that come with dray."""
