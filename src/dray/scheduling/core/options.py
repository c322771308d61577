"""Options: the configuration of a scheduler."""

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
    """The name of the scheduler. Pods that name another scheduler are ignored."""
    gates: FeatureGates = ALL_GATES
    policy: Policy = KUBERNETES
    """The policy by which nodes and their devices are chosen."""
    preempt_for_devices: bool = True
    binding_timeout: float = 600.0
    reservation_seconds: float = 1800.0
    """How long resources are at first reserved for a group that does not fit, in seconds; 0: never."""
    queue_usage: UsageOptions | None = None
    """How past usage counts for the shares of queues; None: it does not count."""
    queues: QueueMode = QueueMode.AUTO
    seed: int = 0
    plugins: tuple[Plugin, ...] = ()
    """Plugins of users, in addition to the scheduler's own."""
    unloaded_plugins: tuple[UnloadedPlugin, ...] = ()
    """Plugins that are configured but could not be loaded."""
