"""One `dray run`: its claim and pod on the server, from their creation to their end.

The pod is watched all the time; whatever the session waits for is a question about the pod as it was seen last. An
interrupt deletes the pod, as a user would, and the session goes on until it is gone; a second one does not let it end
in its own time.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, status_of
from dray.api.pods import is_terminal, node_of
from dray.api.resource_claims import results_of
from dray.cli.explanation_trees import device
from dray.cli.pod_log import PODS, PodLog
from dray.cli.pod_progress import cannot_start, exit_status, has_started, is_unschedulable, misfortune, waits_for
from dray.cli.run_objects import CONTAINER, Run, owned
from dray.client.errors import ApiError, Conflict, NotFound
from dray.client.interface import DeleteOptions, Selection
from dray.process.tasks import end_tasks

if TYPE_CHECKING:
    from dray.cli.status_line import StatusLine
    from dray.client.api import ApiClient

CLAIMS: Final = built_in("resource.k8s.io/v1", "ResourceClaim")
EVENTS: Final = built_in("v1", "Event")
_GAVE_UP: Final = 124
_CANNOT_START: Final = 127
_SIGNALLED: Final = 128
_LEAVING_SECONDS: Final = 60.0


class Session:
    def __init__(self, client: ApiClient, run: Run, line: StatusLine) -> None:
        self._client = client
        self._run = run
        self._line = line
        self._pod: Object = {}
        self._gone = False
        self._warning = ""
        self._devices: list[str] = []
        self._changed = asyncio.Event()
        self._interrupts: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, *, keep: bool, timeout: float | None) -> int:
        """The exit status of the command, or 124, 127 or 128 and a signal, as `dray run` documents them."""
        try:
            await self._create()
            with self._interruptible():
                async with self._watching():
                    return await self._until_ended(timeout)
        finally:
            if not keep or self._interrupts:
                await self._remove()
            self._line.clear()

    # Making and taking away

    async def _create(self) -> None:
        if self._run.requests:
            claim = await self._client.create(CLAIMS, self._run.claim())
            self._run = replace(self._run, name=claim["metadata"]["name"])
            _check_capacity(self._run.claim(), claim)
        self._pod = await self._client.create(PODS, self._run.pod())
        self._run = replace(self._run, name=self._pod["metadata"]["name"])
        if self._run.requests:
            # Whatever becomes of this process: who deletes the pod has deleted the claim.
            await self._client.patch(CLAIMS, self._run.name, owned(self._pod), namespace=self._run.namespace)

    async def _remove(self) -> None:
        if self._pod:
            await self._delete_pod(None)
            if not self._gone:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LEAVING_SECONDS), self._watching():
                        await self._until(lambda: self._gone)
        if self._run.requests and self._run.name:
            with contextlib.suppress(ApiError):
                await self._client.delete(CLAIMS, self._run.name, namespace=self._run.namespace)

    async def _delete_pod(self, grace: int | None) -> None:
        options = DeleteOptions(uid=self._pod["metadata"]["uid"], grace_period=grace)
        try:
            await self._client.delete(PODS, self._run.name, namespace=self._run.namespace, options=options)
        except (NotFound, Conflict):
            # Another one of the same name is not ours.
            self._gone = True

    # Watching

    @contextlib.asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._watch_pod()), asyncio.create_task(self._watch_events())]
        try:
            yield
        finally:
            await end_tasks(tasks)

    async def _watch_pod(self) -> None:
        selection = Selection(fields=f"metadata.name={self._run.name}")
        while not self._gone:
            found = await self._client.list(PODS, namespace=self._run.namespace, selection=selection)
            ours = [each for each in found["items"] if each["metadata"]["uid"] == self._pod["metadata"]["uid"]]
            for each in ours:
                await self._look_at_devices(each)
            self._saw(ours[0] if ours else None)
            events = self._client.watch(
                PODS,
                namespace=self._run.namespace,
                selection=selection,
                resource_version=found["metadata"]["resourceVersion"],
            )
            with contextlib.suppress(ApiError):
                async with aclosing(events) as changes:
                    async for event in changes:
                        if event.type == "BOOKMARK":
                            continue
                        await self._look_at_devices(event.object)
                        self._saw(event.object)
                        if event.type == "DELETED":
                            self._saw(None)

    async def _look_at_devices(self, pod: Object) -> None:
        """Once the pod has its node: a command that ends at once has given them back before it is seen to run."""
        if self._run.requests and not self._devices and node_of(pod):
            with contextlib.suppress(NotFound):
                claim = await self._client.get(CLAIMS, self._run.name, namespace=self._run.namespace)
                self._devices = [device(result) for result in results_of(claim)]

    def _saw(self, pod: Object | None) -> None:
        if pod is None:
            self._gone = True
        elif pod["metadata"]["uid"] == self._pod["metadata"]["uid"]:
            self._pod = pod
        self._changed.set()

    async def _watch_events(self) -> None:
        """Warnings about the pod; whoever may not see them goes without."""
        selection = Selection(fields=f"involvedObject.name={self._run.name},type=Warning")
        with contextlib.suppress(ApiError):
            events = self._client.watch(EVENTS, namespace=self._run.namespace, selection=selection)
            async with aclosing(events) as changes:
                async for event in changes:
                    if event.object.get("reason") not in (None, "FailedScheduling"):
                        self._warning = str(event.object.get("message") or "")
                        self._changed.set()

    async def _until(self, question: Callable[[], bool]) -> None:
        while not question():
            self._changed.clear()
            await self._changed.wait()

    # The way of the pod

    async def _until_ended(self, timeout: float | None) -> int:
        if not await self._until_started(timeout):
            return _SIGNALLED + self._interrupts[0] if self._interrupts else _GAVE_UP
        if cannot_start(self._pod):
            self._line.say(f"{self._run.name}: {waits_for(self._pod, self._warning)}")
            return _CANNOT_START
        if not self._gone:
            self._announce()
            await self._copy_log()
            await self._until(lambda: self._gone or is_terminal(self._pod))
        if self._interrupts:
            return _SIGNALLED + self._interrupts[0]
        # What was deleted while it ran has no end of its own.
        why = misfortune(self._pod)
        if why:
            self._line.say(f"{self._run.name}: {why}")
        return exit_status(self._pod) or (1 if self._gone and not is_terminal(self._pod) else 0)

    async def _until_started(self, timeout: float | None) -> bool:
        """False if it gave up, or was told to."""
        impatient = timeout == 0

        def decided() -> bool:
            if not (self._gone or has_started(self._pod) or self._interrupts):
                passing = not (is_unschedulable(self._pod) or self._warning)
                self._line.show(f"{self._run.name}: {waits_for(self._pod, self._warning)}", passing=passing)
            hopeless = impatient and is_unschedulable(self._pod)
            return self._gone or has_started(self._pod) or cannot_start(self._pod) or hopeless

        try:
            async with asyncio.timeout(timeout or None):
                await self._until(decided)
        except TimeoutError:
            self._line.say(f"{self._run.name}: gave up after {timeout:g} s: {waits_for(self._pod, self._warning)}")
            return False
        if impatient and is_unschedulable(self._pod):
            self._line.say(f"{self._run.name}: {waits_for(self._pod)}")
            return False
        return not (self._gone and self._interrupts)

    def _announce(self) -> None:
        devices = f" with {', '.join(self._devices)}" if self._devices else ""
        self._line.say(f"{self._run.name}: on node {node_of(self._pod)}{devices}")

    async def _copy_log(self) -> None:
        if not status_of(self._pod).get("containerStatuses"):
            return
        log = PodLog(self._client, self._run.namespace, self._run.name, CONTAINER)
        try:
            await log.copy()
            if log.unread:
                # As a program of a shell whose reader has left.
                self._interrupt(signal.SIGPIPE)
        except ApiError as error:
            if not self._gone and not self._interrupts:
                self._line.say(f"{self._run.name}: its output cannot be read: {error}")

    # Interrupts

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt, number)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _interrupt(self, number: int) -> None:
        self._interrupts.append(number)
        self._line.say(f"{self._run.name}: interrupted; the pod is deleted")
        task = asyncio.create_task(self._delete_pod(0 if len(self._interrupts) > 1 else None))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _check_capacity(wanted: Object, stored: Object) -> None:
    """A server that does not know of shared capacity drops it, and would give anything."""
    for asked, kept in zip(wanted["spec"]["devices"]["requests"], stored["spec"]["devices"]["requests"], strict=True):
        if "capacity" in asked["exactly"] and "capacity" not in kept["exactly"]:
            raise ApiError(
                422,
                "Invalid",
                "this cluster does not know capacity in claims (DRAConsumableCapacity); without --memory and --cpu "
                "it can be asked, and --select chooses devices by their memory",
            )
