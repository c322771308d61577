"""PodWatch: follows one pod, by its uid, and the warnings about it.

A question about the pod is asked of the state that was seen last; `until` returns when the answer is yes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, key_of, uid_of
from dray.cli.pod_log import PODS
from dray.client.errors import ApiError, ConnectionFailed
from dray.client.interface import Selection
from dray.process.tasks import end_tasks

if TYPE_CHECKING:
    from dray.client.api import ApiClient

EVENTS: Final = built_in("v1", "Event")
# Between two attempts to reach the server again.
_PAUSE: Final = 1.0


class PodWatch:
    """`pod` is the pod as it was seen last, `warning` the last warning event about it.

    `look` is called with every new state of the pod before anybody else sees that state.
    """

    def __init__(self, client: ApiClient, pod: Object, look: Callable[[Object], Awaitable[None]] | None = None) -> None:
        self._client = client
        self._look = look
        self._changed = asyncio.Event()
        self.pod = pod
        self.gone = False
        self.warning = ""
        self._refusal: ApiError | None = None

    @property
    def name(self) -> str:
        return key_of(self.pod)[1]

    @property
    def namespace(self) -> str:
        return key_of(self.pod)[0]

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._follow_pod()), asyncio.create_task(self._follow_events())]
        try:
            yield
        finally:
            await end_tasks(tasks)

    async def until(self, question: Callable[[], bool]) -> None:
        """Raises ApiError if the server refuses to show the pod."""
        while not question():
            if self._refusal is not None:
                raise self._refusal
            self._changed.clear()
            await self._changed.wait()

    def stir(self) -> None:
        """Makes `until` check its condition again."""
        self._changed.set()

    def forget(self) -> None:
        """The pod is gone from the server."""
        self.gone = True
        self._changed.set()

    async def _follow_pod(self) -> None:
        while not self.gone:
            try:
                await self._follow_from_list()
            except ConnectionFailed:
                await asyncio.sleep(_PAUSE)
            except ApiError as error:
                self._refusal = error
                self._changed.set()
                return

    async def _follow_from_list(self) -> None:
        selection = Selection(fields=f"metadata.name={self.name}")
        while not self.gone:
            found = await self._client.list(PODS, namespace=self.namespace, selection=selection)
            ours = [pod for pod in found["items"] if uid_of(pod) == uid_of(self.pod)]
            if not ours:
                self.forget()
                return
            await self._saw(ours[0])
            events = self._client.watch(
                PODS,
                namespace=self.namespace,
                selection=selection,
                resource_version=found["metadata"]["resourceVersion"],
            )
            with contextlib.suppress(ApiError):
                async with aclosing(events) as changes:
                    async for event in changes:
                        if event.type != "BOOKMARK" and uid_of(event.object) == uid_of(self.pod):
                            await self._saw(event.object)
                            if event.type == "DELETED":
                                self.forget()

    async def _saw(self, pod: Object) -> None:
        if self._look is not None:
            await self._look(pod)
        self.pod = pod
        self._changed.set()

    async def _follow_events(self) -> None:
        """A user who may not see events goes without warnings."""
        selection = Selection(fields=f"involvedObject.name={self.name},type=Warning")
        with contextlib.suppress(ApiError):
            events = self._client.watch(EVENTS, namespace=self.namespace, selection=selection)
            async with aclosing(events) as changes:
                async for event in changes:
                    if event.object.get("reason") not in (None, "FailedScheduling"):
                        self.warning = str(event.object.get("message") or "")
                        self._changed.set()
