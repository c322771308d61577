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
    """Wakes the loop, which asks the scheduler for the next action."""
    stop: Callable[[Pod, str], Awaitable[None]]
    """Evicts a pod because its queue, given by its title, is stopped."""


class SystemFeed:
    """Writes the status of objects of a queue system, if the system itself does not run in the cluster."""

    async def start(self) -> None:
        """Returns when everything is known that decisions depend on."""

    async def run(self) -> None:
        """Runs beside the scheduler until it is cancelled; a feed without such work need not define it."""

    async def scheduled(self, pod: Pod) -> None:
        """Called when a pod of a group was placed, together with the other pods of its group that start with it."""

    async def refused(self, group: Group, action: Refuse) -> None:
        """Called when a group could not be placed."""


@dataclass(frozen=True, slots=True)
class QueueSystem:
    api_group: str
    """The API group of the queues. A webhook for this group shows that the system itself runs in the cluster."""
    title: str
    queues: ServedResource
    """The kind that has quota."""
    kinds: Mapping[str, OptionalKind]
    """The kinds of the system except those of groups, by the name under which the scheduler receives objects."""
    queue_kinds: frozenset[str]
    """The kinds that decide on quota."""
    groups: ServedResource
    """The kind that has to be served so that Jobs whose pods name the system are groups."""
    feeds: tuple[Callable[[FeedContext], SystemFeed], ...]
