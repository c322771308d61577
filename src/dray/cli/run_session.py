"""One `dray run`: creates its claim and pod, follows the pod to its end, and deletes both.

An interrupt deletes the pod, and the session goes on until the pod is gone; a second interrupt deletes it without a
grace period, a third ends the session at once. If the server cannot be reached for the deletion, or the terminal is
lost (SIGHUP), the session ends, the pod goes on, and the session prints how to come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from dray.answers.explaining.explanation_trees import device_text
from dray.api.catalogue import built_in
from dray.api.objects import Object
from dray.api.pods import node_of
from dray.api.resource_claims import results_of
from dray.cli.pod_following import GAVE_UP, SIGNALLED, Following, Streams, handling
from dray.cli.pod_log import PODS
from dray.cli.pod_watch import PodWatch
from dray.cli.run_objects import CONTAINER, Run, owned
from dray.client.errors import ApiError, ClientError, Conflict, NotFound
from dray.client.interface import DeleteOptions

if TYPE_CHECKING:
    from dray.cli.cluster import Cluster
    from dray.cli.status_line import StatusLine

CLAIMS: Final = built_in("resource.k8s.io/v1", "ResourceClaim")
_DELETION_SECONDS: Final = 60.0
_RELEASE_SECONDS: Final = 10.0
# A server that accepts connections and does not answer must not keep an interrupted command.
_REQUEST_SECONDS: Final = 20.0
_ENOUGH_SIGNALS: Final = 3
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Manner:
    """How a session treats its pod; `timeout` is for the start, 0 gives up when the scheduler refuses the pod."""

    keep: bool = False
    detach: bool = False
    timeout: float | None = None
    streams: Streams = field(default_factory=Streams)


class Session:
    def __init__(self, cluster: Cluster, run: Run, line: StatusLine, manner: Manner) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._run = run
        self._line = line
        self._manner = manner
        self._devices: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Returns the exit status of the command, or 124, 127 or 128 and a signal, as `dray run` documents them."""
        watch = await self._create()
        if self._manner.detach:
            self._say_how_to_return(watch.name, "runs in the background")
            return 0
        following = Following(self._cluster, watch, self._line, CONTAINER, self._manner.streams)
        try:
            with handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), lambda number: self._stop(following, number)):
                async with watch.following():
                    return await self._follow(following)
        finally:
            if following.is_abandoned:
                self._say_how_to_return(watch.name, "was not deleted and may keep running")
            elif signal.SIGHUP in following.signals:
                self._say_how_to_return(watch.name, "keeps running without this terminal")
            elif not self._manner.keep or following.signals:
                await self._remove(watch)
            self._line.clear()

    async def _follow(self, following: Following) -> int:
        if not await following.until_started(self._manner.timeout):
            return SIGNALLED + following.signals[0] if following.signals else GAVE_UP
        if not following.watch.gone:
            devices = f" with {', '.join(self._devices)}" if self._devices else ""
            node = node_of(following.watch.pod)
            if node:
                self._line.say(f"{following.watch.name}: on node {node}{devices}")
        return await following.until_ended()

    async def _create(self) -> PodWatch:
        claim: Object | None = None
        if self._run.requests:
            claim = await self._client.create(CLAIMS, self._run.claim())
            self._run = replace(self._run, name=claim["metadata"]["name"])
        try:
            if claim is not None:
                _check_capacity(self._run.claim(), claim)
            pod = await self._client.create(PODS, self._run.pod())
        except BaseException:
            await self._delete_claim()
            raise
        self._run = replace(self._run, name=pod["metadata"]["name"])
        if self._run.requests:
            # The claim is deleted with the pod, also if this process ends before that.
            await self._client.patch(CLAIMS, self._run.name, owned(pod), namespace=self._run.namespace)
        return PodWatch(self._client, pod, self._look_at_devices)

    async def _look_at_devices(self, pod: Object) -> None:
        """Reads the devices once the pod has a node: a short command has released them before it is seen to run."""
        if self._run.requests and not self._devices and node_of(pod):
            with contextlib.suppress(NotFound):
                claim = await self._client.get(CLAIMS, self._run.name, namespace=self._run.namespace)
                self._devices = [device_text(result) for result in results_of(claim)]

    async def _remove(self, watch: PodWatch) -> None:
        await self._delete_pod(watch, None)
        if not watch.gone:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DELETION_SECONDS), watch.following():
                    await watch.until(lambda: watch.gone)
        await self._delete_claim()

    async def _delete_claim(self) -> None:
        """Deletes the claim and waits until it is gone, so that its devices are free for the next command."""
        if not (self._run.requests and self._run.name):
            return
        with contextlib.suppress(ApiError, TimeoutError):
            await self._client.delete(CLAIMS, self._run.name, namespace=self._run.namespace)
            async with asyncio.timeout(_RELEASE_SECONDS):
                while True:
                    await self._client.get(CLAIMS, self._run.name, namespace=self._run.namespace)
                    await asyncio.sleep(_POLL_SECONDS)

    async def _delete_pod(self, watch: PodWatch, grace: int | None) -> None:
        options = DeleteOptions(uid=watch.pod["metadata"]["uid"], grace_period=grace)
        try:
            await self._client.delete(PODS, watch.name, namespace=watch.namespace, options=options)
        except (NotFound, Conflict):
            # A pod of the same name with another uid is not ours.
            watch.forget()

    def _stop(self, following: Following, number: int) -> None:
        following.signalled(number)
        if number == signal.SIGHUP:
            return
        if len(following.signals) >= _ENOUGH_SIGNALS:
            following.abandon()
            return
        self._line.say(f"{following.watch.name}: interrupted; the pod is deleted")
        task = asyncio.create_task(self._delete_interrupted(following, 0 if len(following.signals) > 1 else None))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete_interrupted(self, following: Following, grace: int | None) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await self._delete_pod(following.watch, grace)
        except TimeoutError:
            self._line.say(f"{following.watch.name}: the server has not answered within {_REQUEST_SECONDS:g} s")
            following.abandon()
        except ClientError as error:
            self._line.say(f"{following.watch.name}: cannot be deleted: {error}")
            following.abandon()

    def _say_how_to_return(self, name: str, state: str) -> None:
        # The terminal may be gone.
        with contextlib.suppress(OSError):
            namespace = f" -n {self._run.namespace}" if self._run.namespace != "default" else ""
            self._line.say(
                f"{name}: {state}; `dray attach {name}{namespace}` follows it, "
                f"`dray delete pod {name}{namespace}` ends it"
            )


def _check_capacity(wanted: Object, stored: Object) -> None:
    """Raises ApiError if the server dropped the capacity from the claim, and would allocate any device."""
    for asked, kept in zip(wanted["spec"]["devices"]["requests"], stored["spec"]["devices"]["requests"], strict=True):
        if "capacity" in asked["exactly"] and "capacity" not in kept["exactly"]:
            raise ApiError(
                422,
                "Invalid",
                "this cluster does not know capacity in claims (DRAConsumableCapacity); leave out --memory and --cpu, "
                "and choose devices by their memory with --select",
            )
