"""The queue systems that the loop knows. A system is listed here, and named nowhere else in the loop."""

from __future__ import annotations

from typing import Final

from dray.scheduling_loop.queue_systems import kai, kueue
from dray.scheduling_loop.queue_systems.queue_system import QueueSystem

SYSTEMS: Final[tuple[QueueSystem, ...]] = (kueue.SYSTEM, kai.SYSTEM)
