"""Queues of Kueue, where dray serves the kinds itself: read for the scheduler, and told what nobody acts on.

On a cluster where Kueue is installed, it admits the pods, and this scheduler places those that it let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dray.api.objects import Object, mapping
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.discovery import OptionalInformer, ServedResource
from dray.client.events import EventRecorder
from dray.client.foreign_kinds import KUEUE, is_own
from dray.client.informer import Informers
from dray.scheduling.front_ends import kueue
from dray.scheduling.scheduler import Scheduler

Now = Callable[[], float]


class QueueFeed:
    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        events: EventRecorder,
        scheduler: Scheduler,
        now: Now,
        wake: Callable[[], None],
        set_aside: Callable[[ServedResource, Change, Exception], None],
    ) -> None:
        """`set_aside` is told of what could not be taken in."""
        self._client = client
        self._events = events
        self._scheduler = scheduler
        self._now = now
        self._wake = wake
        self._set_aside = set_aside
        self._informers = {
            kind: OptionalInformer(client, informers, resource.group, resource.plural, version=resource)
            for kind, resource in KUEUE.items()
        }
        self._told: dict[str, int] = {}
        """By uid, the generation of an object that was told what of it nobody acts on."""

    async def start(self) -> None:
        """Returns when all that there is of them is known, or that they are somebody else's."""
        if not await is_own(self._client, KUEUE["ClusterQueue"]):
            return
        self._scheduler.state.queues.served = True
        for kind, informer in self._informers.items():
            informer.add_handler(self._taking(kind))
            await informer.start()

    def _taking(self, kind: str) -> Callable[[Change], None]:
        def take(change: Change) -> None:
            gone = change.type == "DELETED"
            try:
                (self._scheduler.remove if gone else self._scheduler.put)(kind, change.object, self._now())
                if gone:
                    self._told.pop(str(change.object["metadata"].get("uid")), None)
                else:
                    self._warn(kind, change.object)
            except Exception as error:
                # One that cannot be read keeps nobody from the others.
                self._set_aside(KUEUE[kind], change, error)
            self._wake()

        return take

    def _warn(self, kind: str, document: Object) -> None:
        metadata = document["metadata"]
        uid, generation = str(metadata.get("uid")), int(metadata.get("generation") or 0)
        ignored = list(_ignored(kind, document)) if self._told.get(uid) != generation else []
        self._told[uid] = generation
        if ignored:
            about = {"apiVersion": KUEUE[kind].api_version, "kind": kind, **document}
            self._events.warning(about, "NotActedUpon", f"nobody acts on {', '.join(ignored)} here")


def _ignored(kind: str, document: Object) -> Iterator[str]:
    if kind == "ClusterQueue":
        yield from kueue.cluster_queue(document).ignored
    for member in ("nodeTaints", "tolerations", "topologyName", "fairSharing"):
        if kind != "ClusterQueue" and mapping(document.get("spec")).get(member):
            yield f"spec.{member}"
