"""Options of a node agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dray.api.objects import Object
from dray.node.eviction.pressure import EvictionOptions
from dray.node.host_parts import HostPart
from dray.node.runtimes.interface import Runtime
from dray.node.timing import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """`root` holds all state of the agent; drivers find their directories in it, as under /var/lib/kubelet."""

    node: str
    root: Path
    runtime: Runtime
    address: str = "127.0.0.1"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Object] = ()
    port: int = 10250
    resources: Mapping[str, str] = field(default_factory=dict)
    """Resources that the node reports, instead of those of the machine."""
    manifests: Path | None = None
    """A directory with static pods."""
    eviction: EvictionOptions = field(default_factory=EvictionOptions)
    api_server: str = ""
    """The URL at which pods reach the API server."""
    host_parts: Sequence[HostPart] = ()
    """Processes beside the agent that are shown as pods."""
    timing: Timing = field(default_factory=Timing)
