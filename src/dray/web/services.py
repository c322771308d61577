"""Functions of upper layers that views call, and what is kept for them. `dray.cli.page` fills them in.

A view that needs logic of the command line adds a field here and a line there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dray.web.devices.known_layouts import KnownLayouts
from dray.web.history.recorder import History


@dataclass(frozen=True, slots=True)
class Services:
    cluster_name: str = "dray"
    """What the page calls the cluster: the context of the kubeconfig, or dray."""
    examples: Path | None = None
    """The directory of the examples that come with dray."""
    history: History = field(default_factory=History)
    """The last hours, if they are recorded."""
    layouts: KnownLayouts = field(default_factory=KnownLayouts)
    """The layouts of nodes, which the cluster views of all viewers share."""
