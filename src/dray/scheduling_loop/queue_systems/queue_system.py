"""QueueSystem: what the loop has to know of a queue system, and SystemFeed: what runs beside the scheduler for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.client.api import ApiClient
from dray.client.discovery import ServedResource
from dray.client.events import EventRecorder
from dray.scheduling.model.actions import Refuse
from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod
from dray.scheduling.scheduler import Scheduler
from dray.scheduling_loop.pod_writes import PodWriter
from dray.scheduling_loop.queue_systems.optional_kind import OptionalKind

if TYPE_CHECKING:
    from dray.scheduling_loop.optional_feed import OptionalFeed


@dataclass(frozen=True, slots=True)
class FeedContext:
    client: ApiClient
    kinds: OptionalFeed
    scheduler: Scheduler
    events: EventRecorder
    pods: PodWriter
    now: Callable[[], float]
    wake: Callable[[], None]
    """Has the scheduler look for something to do."""
    stop: Callable[[Pod, str], Awaitable[None]]
    """Evicts a pod, since the queue of that title is stopped."""


class SystemFeed:
    """Writes what there is to say about objects of a queue system, where no other system does."""

    async def start(self) -> None:
        """Returns when all is known that the scheduler decides by."""

    async def run(self) -> None:
        """Runs beside the scheduler until it is cancelled; a feed without such work need not define it."""

    async def scheduled(self, pod: Pod) -> None:
        """Called when a pod of a group has a place, and others of its group that start with it."""

    async def refused(self, group: Group, action: Refuse) -> None:
        """Called when a group has no place."""


@dataclass(frozen=True, slots=True)
class QueueSystem:
    api_group: str
    """Of its queues. Webhooks for it show that the system itself runs in the cluster."""
    title: str
    queues: ServedResource
    """The kind that has quota."""
    kinds: Mapping[str, OptionalKind]
    """All its kinds but those that stand for groups, by the name under which objects are given to the scheduler."""
    queue_kinds: frozenset[str]
    """The kinds that decide on quota."""
    groups: ServedResource
    """The kind that has to be served so that Jobs whose pods name the system are groups."""
    feeds: tuple[Callable[[FeedContext], SystemFeed], ...]
