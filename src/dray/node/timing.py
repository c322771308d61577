"""Timing: the pauses and limits of a kubelet, in seconds, as Kubernetes 1.37 has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.client.retries import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Pauses and timeouts of a node agent; only tests change them."""

    registry_scan: float = 1.0
    dial: float = 10.0
    get_info: float = 1.0
    notify: float = 5.0
    registration: Backoff = field(default_factory=lambda: Backoff(first=0.5, longest=122.0, jitter=0.0))
    """Pauses between attempts to register one socket."""
    call: float = 45.0
    """Timeout of a NodePrepareResources or NodeUnprepareResources call."""
    reconcile: float = 60.0
    """Pause between looks for prepared claims whose pods are gone."""
    wipe_delay: float = 30.0
    """Delay from the loss of a driver until its ResourceSlices are deleted."""
    wipe: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=300.0, jitter=0.2))
    wipe_attempts: int = 100
    health_reconnect: float = 5.0
    health_timeout: float = 30.0
    """How long a health report is valid if the driver does not say."""
    health_check: float = 1.0
    """Pause between looks for expired health reports."""
    file_check: float = 1.0
    """Pause between looks at the files of static pods; a kubelet uses inotify and looks every 20 s."""
