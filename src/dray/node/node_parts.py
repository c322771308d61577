"""Parts of a node agent that the workers of its pods share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.client.api import ApiClient
from dray.client.clock import TimeOfDay
from dray.client.events import EventRecorder
from dray.node.dra_node import DraNode
from dray.node.runtimes.interface import Runtime

if TYPE_CHECKING:
    from dray.node.container_config import PodSetup


@dataclass(frozen=True, slots=True)
class NodeParts:
    client: ApiClient
    runtime: Runtime
    setup: PodSetup
    dra: DraNode
    events: EventRecorder
    time: TimeOfDay
    host_ip: str
    refresh_seconds: float = 60.0
