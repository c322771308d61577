"""The controller of notifications: watches Jobs and pods, and tells each event about an object once.

What was told, or could not be told after some retries, stands in the annotation `dray.dev/notified` of the object, so
that another controller does not tell it again. What ended more than an hour ago is not told: the controller may have
been switched on later. Up to a thousand notifications wait to be sent; further ones are dropped, and counted.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from prometheus_client import Counter

from dray.api.objects import Object, annotations_of, key_of, metadata_of
from dray.api.times import seconds_of
from dray.client.cache import Change
from dray.client.errors import ClientError
from dray.client.interface import PatchType
from dray.controllers.environment import Environment
from dray.controllers.kinds import JOBS, PODS
from dray.controllers.notifications.delivery import DeliveryFailed, deliver
from dray.controllers.notifications.messages import Notification, job_ended, pod_ended, pod_waiting, waits

ANNOTATION: Final = "dray.dev/notified"
_RECENT: Final = 3600.0
_MOST_WAITING: Final = 1000
_MOST_KNOWN: Final = 100_000
_SENDERS: Final = 4
_LOOK_SECONDS: Final = 10.0
_logger = logging.getLogger("dray.controllers")


class Notifications:
    def __init__(self, environment: Environment) -> None:
        self._options = environment.notifications
        self._client = environment.client
        self._time = environment.time
        self._queue: asyncio.Queue[Notification] = asyncio.Queue(_MOST_WAITING)
        self._known: dict[tuple[str, str], None] = {}
        """(uid, event) of notifications that were sent or queued."""
        self._sent = Counter(
            "dray_notifications",
            "Notifications by event and result: sent, failed, dropped.",
            ("event", "result"),
            registry=environment.metrics,
        )
        if self._options:
            self._jobs, self._pods = environment.informers.of(JOBS), environment.informers.of(PODS)

    async def run(self) -> None:
        if not self._options:
            await asyncio.Event().wait()
        self._jobs.add_handler(self._job_changed)
        self._pods.add_handler(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            for _ in range(_SENDERS):
                group.create_task(self._send())
            if self._options.waiting_seconds > 0:
                group.create_task(self._look_for_waiting())

    def _job_changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._add_ended(change.object, job_ended(change.object))

    def _pod_changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._add_ended(change.object, pod_ended(change.object))

    def _add_ended(self, about: Object, notification: Notification | None) -> None:
        if notification is not None:
            ended = seconds_of(notification.ended) or seconds_of(notification.created) or 0.0
            if self._now() - ended < _RECENT:
                self._add(about, notification)

    async def _look_for_waiting(self) -> None:
        while True:
            for pod in [*self._pods.cache]:
                since = seconds_of(metadata_of(pod).get("creationTimestamp"))
                if waits(pod) and since is not None and self._now() - since >= self._options.waiting_seconds:
                    notification = pod_waiting(pod)
                    job = self._jobs.cache.get(notification.name, namespace=notification.namespace)
                    self._add(job or pod if notification.kind == "Job" else pod, notification)
            await asyncio.sleep(_LOOK_SECONDS)

    def _now(self) -> float:
        return self._time.now().timestamp()

    def _add(self, about: Object, notification: Notification) -> None:
        key = notification.uid, notification.event
        if key in self._known or notification.event in annotations_of(about).get(ANNOTATION, "").split(","):
            return
        self._known[key] = None
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        try:
            self._queue.put_nowait(notification)
        except asyncio.QueueFull:
            self._sent.labels(notification.event, "dropped").inc()
            _logger.error("notifications: too many wait to be sent; %s is dropped", _called(notification))

    async def _send(self) -> None:
        while True:
            notification = await self._queue.get()
            try:
                await deliver(self._options, notification)
                self._sent.labels(notification.event, "sent").inc()
            except DeliveryFailed as error:
                self._sent.labels(notification.event, "failed").inc()
                _logger.error("notifications: %s was not delivered: %s", _called(notification), error)
            await self._mark(notification)

    async def _mark(self, notification: Notification) -> None:
        """Writes into the object what was told; it may be gone."""
        kind = JOBS if notification.kind == "Job" else PODS
        place = {"namespace": notification.namespace, "name": notification.name}
        with suppress(ClientError):
            found = await self._client.get(kind, notification.name, namespace=notification.namespace)
            before = annotations_of(found).get(ANNOTATION, "")
            told = ",".join(filter(None, (*before.split(","), notification.event)))
            body = {"metadata": {**place, "uid": notification.uid, "annotations": {ANNOTATION: told}}}
            namespace, name = key_of(found)
            await self._client.patch(kind, name, body, namespace=namespace, patch_type=PatchType.MERGE)


def _called(notification: Notification) -> str:
    return f"{notification.event} of {notification.kind} {notification.namespace}/{notification.name}"
