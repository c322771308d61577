"""Control of one container of a pod: started with its hooks, watched with its probes, stopped with its hooks."""

from __future__ import annotations

import asyncio
import logging
import signal
import time as monotonic
from collections.abc import Callable
from contextlib import suppress
from signal import SIGTERM
from typing import Final

from dray.api.objects import Object, key_of, mapping, spec_of
from dray.client.errors import ClientError
from dray.node import handlers
from dray.node.container_records import FIRST_BACKOFF, LONGEST_BACKOFF, ContainerRecord
from dray.node.errors import NodeError, described
from dray.node.node_parts import NodeParts
from dray.node.pod_status import PodState
from dray.node.probes import Probes
from dray.node.runtimes.interface import ContainerState, StartError
from dray.process.tasks import end_tasks

_logger = logging.getLogger(__name__)
_IMAGE_REASONS: Final = {"ErrImagePull": "ImagePullBackOff"}
_LEAST_GRACE: Final = 2.0


class ContainerControl:
    """Starts, watches and stops containers of a pod; calls `changed` whenever the status of the pod changes."""

    def __init__(
        self, parts: NodeParts, pod: Callable[[], Object], state: PodState, changed: Callable[[], None]
    ) -> None:
        self.parts = parts
        self.pod = pod
        self.state = state
        self.changed = changed
        self._woken: dict[str, asyncio.Event] = {}

    async def pause(self, record: ContainerRecord, seconds: float) -> None:
        """Waits before the next start; `wake` ends the wait early."""
        woken = self._woken[record.name] = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await woken.wait()

    def wake(self, record: ContainerRecord) -> None:
        """Ends the wait before the next start: the image has changed, so the next try may succeed."""
        record.failures = 0
        if (woken := self._woken.get(record.name)) is not None:
            woken.set()

    # Start

    async def start(self, record: ContainerRecord) -> None:
        """Starts the container; retries until it runs."""
        failures = 0
        while True:
            try:
                await self._start_once(record)
                return
            except (NodeError, StartError) as error:
                reason = getattr(error, "reason", "CreateContainerConfigError")
                record.waiting = (_IMAGE_REASONS.get(reason, reason) if failures else reason, described(error))
                self.parts.events.warning(self.pod(), "Failed", f"Error: {described(error)}")
            except (ClientError, OSError) as error:
                record.waiting = ("CreateContainerError", described(error))
            except Exception as error:
                if not failures:
                    _logger.exception("Pod %s/%s: container %s", *key_of(self.pod()), record.name)
                record.waiting = ("CreateContainerError", described(error))
                self.parts.events.warning(self.pod(), "Failed", f"Error: {described(error)}")
            self.changed()
            await self.pause(record, min(FIRST_BACKOFF * 2**failures, LONGEST_BACKOFF))
            failures = min(failures + 1, 10)

    async def _start_once(self, record: ContainerRecord) -> None:
        pod, parts = self.pod(), self.parts
        devices = parts.dra.cdi_ids(pod, record.spec)
        async with parts.setup.container(
            pod, record.spec, record.attempt + 1, pod_ip=self.state.pod_ip, cdi_devices=devices
        ) as config:
            state = await parts.runtime.start(config)
        previous = record.last
        record.began(state)
        self.state.waiting.discard(record.name)
        parts.events.normal(pod, "Created", f"Container created: {record.name}")
        parts.events.normal(pod, "Started", f"Container started: {record.name}")
        if state.warning and previous is None:
            parts.events.warning(pod, "ImageNotUsed", f"Container {record.name}: {state.warning}")
        self.changed()
        if previous is not None:
            await parts.runtime.remove(previous.id)
        if handler := mapping(mapping(record.spec.get("lifecycle")).get("postStart")):
            await self._post_start(record, handler)

    async def _post_start(self, record: ContainerRecord, handler: Object) -> None:
        """Runs the postStart hook. If it fails, the container is ended; its restart policy says what follows."""
        problem = await self._handle(handler, record)
        if problem is not None:
            self.parts.events.warning(self.pod(), "FailedPostStartHook", f"PostStartHook failed: {problem}")
            await self.end(record, self.grace_of_pod())

    # While it runs

    async def follow(self, record: ContainerRecord) -> None:
        """Waits until the container has ended; ends it if a probe fails."""
        assert record.state is not None
        ending = asyncio.create_task(self.parts.runtime.wait(record.state.id))
        probing = asyncio.create_task(self._probes(record).run())
        try:
            await asyncio.wait((ending, probing), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                kind, text = probing.result(), f"Container {record.name} failed {probing.result()} probe"
                self.parts.events.normal(self.pod(), "Killing", f"{text}, will be restarted")
                given = mapping(record.spec.get(f"{kind}Probe")).get("terminationGracePeriodSeconds")
                await self.end(record, float(given or self.grace_of_pod()))
            self.ended(record, await ending)
        finally:
            await end_tasks((ending, probing))

    async def wait(self, record: ContainerRecord) -> None:
        """Waits until the container ends by itself; runs no probes."""
        assert record.state is not None
        self.ended(record, await self.parts.runtime.wait(record.state.id))

    def ended(self, record: ContainerRecord, state: ContainerState) -> None:
        try:
            message = self.parts.setup.termination_message(self.pod(), record.spec, state)
        except Exception as error:
            message = described(error)
        record.ended(state, message)

    def _probes(self, record: ContainerRecord) -> Probes:
        def started() -> None:
            record.started = True
            self.changed()

        def ready(value: bool) -> None:
            record.ready = value
            self.changed()

        def failed(kind: str, problem: str) -> None:
            self.parts.events.warning(self.pod(), "Unhealthy", f"{kind} probe failed: {problem}")

        return Probes(
            record.spec, lambda probe: self._handle(probe, record), started=started, ready=ready, failed=failed
        )

    async def _handle(self, handler: Object, record: ContainerRecord) -> str | None:
        assert record.state is not None
        address = self.state.pod_ip or "127.0.0.1"
        try:
            return await handlers.run(handler, record.spec, record.state.id, self.parts.runtime, address)
        except TimeoutError:
            raise
        except Exception as error:
            return described(error)

    def grace_of_pod(self) -> float:
        given = spec_of(self.pod()).get("terminationGracePeriodSeconds")
        return 30.0 if given is None else 1.0 if given < 0 else float(given)

    # Stop

    async def stop(self, record: ContainerRecord, left: Callable[[], float]) -> None:
        """Stops the container within `left()` seconds, which may shrink; its readiness is probed until then."""
        stopping = asyncio.create_task(self.end(record, left()))
        probing = asyncio.create_task(self._probes(record).run_readiness(ready=record.ready))
        try:
            while not stopping.done():
                given = left()
                await asyncio.wait((stopping,), timeout=0.2)
                if not stopping.done() and left() < given - 1 and record.state is not None:
                    # The grace period was shortened.
                    await self.parts.runtime.stop(record.state.id, left())
            self.ended(record, await stopping)
            self.changed()
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)

    async def end(self, record: ContainerRecord, grace: float) -> ContainerState:
        """Ends the container: preStop hook, stop signal, SIGKILL after the grace period. Returns how it ended."""
        assert record.state is not None
        began = monotonic.monotonic()
        handler = mapping(mapping(record.spec.get("lifecycle")).get("preStop"))
        if handler and grace > 0:
            try:
                async with asyncio.timeout(grace):
                    problem = await self._handle(handler, record)
            except TimeoutError:
                problem = f"did not end within the grace period of {grace:g} s"
            if problem is not None:
                self.parts.events.warning(self.pod(), "FailedPreStopHook", f"PreStopHook failed: {problem}")
            grace = max(grace - (monotonic.monotonic() - began), _LEAST_GRACE)
        return await self.parts.runtime.stop(record.state.id, grace, _stop_signal(record.spec))


def _stop_signal(container: Object) -> int:
    name = str(mapping(container.get("lifecycle")).get("stopSignal") or "")
    return int(getattr(signal, name, SIGTERM)) if name.startswith("SIG") else int(SIGTERM)
