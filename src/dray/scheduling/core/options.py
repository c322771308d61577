"""Options of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dray.allocation import KUBERNETES, Policy
from dray.api.gates import ALL_GATES, FeatureGates
from dray.scheduling.core.guarded_plugin import UnloadedPlugin
from dray.scheduling.plugin import Plugin
from dray.scheduling.quota.usage_decay import UsageOptions


class QueueMode(Enum):
    """Whether the scheduler enforces the quota of queues."""

    AUTO = "auto"
    """Enforces quota unless the system to which the queues belong runs in the cluster."""
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Options:
    name: str = "default-scheduler"
    """Pods that name another scheduler are left alone."""
    gates: FeatureGates = ALL_GATES
    policy: Policy = KUBERNETES
    """Which of a node's devices to take."""
    weigh_devices: int = 0
    """How much nodes are preferred that waste few devices (packing); if negative, those whose devices are free."""
    preempt_for_devices: bool = True
    binding_timeout: float = 600.0
    reservation_seconds: float = 1800.0
    """How long the place of a group that finds no room is kept from others at first; 0 for never."""
    queue_usage: UsageOptions | None = None
    """How far the past counts for the shares of queues; None where it does not."""
    queues: QueueMode = QueueMode.AUTO
    seed: int = 0
    plugins: tuple[Plugin, ...] = ()
    """Of users, beside the scheduler's own."""
    unloaded_plugins: tuple[UnloadedPlugin, ...] = ()
    """Those that were asked for and that there are not."""
