"""Runs of a pod's containers: started in order, probed, started again by their policy, stopped in the end."""

from __future__ import annotations

import asyncio
import signal
import time as monotonic
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from signal import SIGTERM
from typing import TYPE_CHECKING, Final

from dray.api.objects import Object, mapping, mappings, spec_of
from dray.client.api import ApiClient
from dray.client.clock import TimeOfDay
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.node import handlers
from dray.node.container_records import FIRST_BACKOFF, LONGEST_BACKOFF, ContainerRecord, PodRecords, runs_again
from dray.node.dra_node import DraNode
from dray.node.errors import NodeError
from dray.node.limits import limits_of
from dray.node.pod_status import PodState
from dray.node.probes import Probes
from dray.node.runtimes.interface import ContainerState, Runtime, StartError

if TYPE_CHECKING:
    from dray.node.container_config import PodSetup

_IMAGE_REASONS: Final = {"ErrImagePull": "ImagePullBackOff"}
_LEAST_GRACE: Final = 2.0


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What the workers of a node's pods share."""

    client: ApiClient
    runtime: Runtime
    setup: PodSetup
    dra: DraNode
    events: EventRecorder
    time: TimeOfDay
    host_ip: str
    refresh_seconds: float = 60.0


class ContainerRuns:
    def __init__(
        self, parts: NodeParts, pod: Callable[[], Object], state: PodState, changed: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._pod = pod
        self._state = state
        self._changed = changed
        self._beside: list[asyncio.Task[None]] = []
        """What runs beside the containers: ephemeral ones, and changes to containers that run."""
        self._ephemerals: set[str] | None = None
        """Those that are taken care of; None before the pod is set up."""

    async def run(self, records: PodRecords) -> None:
        """Until no container runs or will run again, sidecars and ephemeral containers aside. Cancelling it leaves
        containers running."""
        try:
            self.follow((), records.ephemerals, ready=True)
            await self._run(records.inits, records.containers)
        finally:
            for task in self._beside:
                task.cancel()
            await asyncio.gather(*self._beside, return_exceptions=True)
            self._beside.clear()

    async def _run(self, inits: list[ContainerRecord], containers: list[ContainerRecord]) -> None:
        sidecars: list[asyncio.Task[None]] = []
        try:
            for record in inits:
                if record.sidecar:
                    sidecars.append(asyncio.create_task(self._keep(record)))
                    await self._until_started(record, sidecars[-1])
                elif not self._state.initialized and not await self._initialize(record):
                    return
            self._state.initialized = True
            for record in containers:
                if record.attempt < 0:
                    record.waiting = ("ContainerCreating", "")
            self._changed()
            async with asyncio.TaskGroup() as group:
                for record in containers:
                    group.create_task(self._keep(record))
        finally:
            for task in sidecars:
                task.cancel()
            await asyncio.gather(*sidecars, return_exceptions=True)

    async def _initialize(self, record: ContainerRecord) -> bool:
        """Whether it succeeded, in the end."""
        if record.exit_code != 0 or record.running:
            await self._keep(record)
        record.ready = record.exit_code == 0
        return record.exit_code == 0

    async def _until_started(self, record: ContainerRecord, keeping: asyncio.Task[None]) -> None:
        while not record.started and not keeping.done():
            await asyncio.sleep(0.02)

    async def _keep(self, record: ContainerRecord) -> None:
        """Runs it, and again for as long as its policy says so."""
        if record.state is None:
            await self._start(record)
        if record.running or not record.messages:
            await self._follow(record)
        while self._again(record):
            self._changed()
            await self._back_off(record)
            await self._start(record)
            await self._follow(record)
        self._changed()

    def _again(self, record: ContainerRecord) -> bool:
        if record.sidecar or record.restart:
            return True
        if not self._state.initialized:
            # An init container that ended well is done; otherwise the policy of its pod counts.
            policy = record.spec.get("restartPolicy") or spec_of(self._pod()).get("restartPolicy") or "Always"
            return record.exit_code != 0 and policy != "Never"
        return runs_again(self._pod(), record)

    async def _back_off(self, record: ContainerRecord) -> None:
        seconds = record.backoff()
        self._state.waiting.add(record.name)
        if seconds and record.state is not None:
            pod = self._pod()["metadata"]
            message = (
                f"back-off {seconds:g}s restarting failed container={record.name} pod={pod['name']}_{pod['namespace']}"
            )
            record.waiting = ("CrashLoopBackOff", message)
            self._parts.events.warning(self._pod(), "BackOff", f"Back-off restarting failed container {record.name}")
            self._changed()
            left = record.state.finished_at + seconds - self._parts.time.now().timestamp()
            await asyncio.sleep(max(left, 0.0))

    async def _start(self, record: ContainerRecord) -> None:
        """Tries until it runs."""
        failures = 0
        while True:
            try:
                await self._start_once(record)
                return
            except (NodeError, StartError) as error:
                reason = getattr(error, "reason", "CreateContainerConfigError")
                record.waiting = (_IMAGE_REASONS.get(reason, reason) if failures else reason, str(error))
                self._parts.events.warning(self._pod(), "Failed", f"Error: {error}")
            except (ClientError, OSError) as error:
                record.waiting = ("CreateContainerError", str(error))
            self._changed()
            await asyncio.sleep(min(FIRST_BACKOFF * 2**failures, LONGEST_BACKOFF))
            failures = min(failures + 1, 10)

    async def _start_once(self, record: ContainerRecord) -> None:
        pod, parts = self._pod(), self._parts
        devices = parts.dra.cdi_ids(pod, record.spec)
        config = await parts.setup.container(
            pod, record.spec, record.attempt + 1, pod_ip=self._state.pod_ip, cdi_devices=devices
        )
        state = await parts.runtime.start(config)
        previous = record.last
        record.began(state)
        self._state.waiting.discard(record.name)
        parts.events.normal(pod, "Started", f"Container started: {record.name}")
        self._changed()
        if previous is not None:
            await parts.runtime.remove(previous.id)
        if handler := mapping(mapping(record.spec.get("lifecycle")).get("postStart")):
            await self._post_start(record, handler)

    async def _post_start(self, record: ContainerRecord, handler: Object) -> None:
        problem = await self._handle(handler, record)
        if problem is not None:
            self._parts.events.warning(self._pod(), "FailedPostStartHook", f"PostStartHook failed: {problem}")
            await self._stop_one(record, self._grace_of_pod())

    async def _follow(self, record: ContainerRecord) -> None:
        """Until it has ended, by itself or because a probe failed."""
        assert record.state is not None
        ending = asyncio.create_task(self._parts.runtime.wait(record.state.id))
        probing = asyncio.create_task(self._probes(record).run())
        try:
            await asyncio.wait((ending, probing), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                kind, text = probing.result(), f"Container {record.name} failed {probing.result()} probe"
                self._parts.events.normal(self._pod(), "Killing", f"{text}, will be restarted")
                given = mapping(record.spec.get(f"{kind}Probe")).get("terminationGracePeriodSeconds")
                await self._parts.runtime.stop(record.state.id, float(given or self._grace_of_pod()), SIGTERM)
            self._ended(record, await ending)
        finally:
            for task in (ending, probing):
                task.cancel()
            await asyncio.gather(ending, probing, return_exceptions=True)

    def _ended(self, record: ContainerRecord, state: ContainerState) -> None:
        message = self._parts.setup.termination_message(self._pod(), record.spec, state)
        record.ended(state, message)

    def _probes(self, record: ContainerRecord) -> Probes:
        def started() -> None:
            record.started = True
            self._changed()

        def ready(value: bool) -> None:
            record.ready = value
            self._changed()

        def failed(kind: str, problem: str) -> None:
            self._parts.events.warning(self._pod(), "Unhealthy", f"{kind} probe failed: {problem}")

        return Probes(
            record.spec, lambda probe: self._handle(probe, record), started=started, ready=ready, failed=failed
        )

    async def _handle(self, handler: Object, record: ContainerRecord) -> str | None:
        assert record.state is not None
        address = self._state.pod_ip or "127.0.0.1"
        return await handlers.run(handler, record.spec, record.state.id, self._parts.runtime, address)

    def _grace_of_pod(self) -> float:
        given = spec_of(self._pod()).get("terminationGracePeriodSeconds")
        return 30.0 if given is None else float(given)

    # Changes of a pod that runs

    def follow(
        self,
        changed: Iterable[tuple[ContainerRecord, Object]],
        ephemerals: Iterable[ContainerRecord],
        *,
        ready: bool = False,
    ) -> None:
        """Carries out what changed in the specs of containers, and runs ephemeral containers that are new, once the
        pod is `ready` for them."""
        if ready:
            self._ephemerals = set()
        if self._ephemerals is None:
            return
        for record, before in changed:
            if record.running:
                self._beside.append(asyncio.create_task(self._change(record, before)))
        for record in ephemerals:
            if record.name not in self._ephemerals:
                self._ephemerals.add(record.name)
                self._beside.append(asyncio.create_task(self._once(record)))

    async def _once(self, record: ContainerRecord) -> None:
        """Runs an ephemeral container, which is never started again nor probed."""
        if record.state is None:
            await self._start(record)
        assert record.state is not None
        if record.running:
            record.started = True
            self._ended(record, await self._parts.runtime.wait(record.state.id))
        self._changed()

    async def _change(self, record: ContainerRecord, before: Object) -> None:
        """A new image needs a new run; so do resources whose policy says so, others are set while it runs."""
        assert record.state is not None
        resized = _resized(before, record.spec)
        rules = mappings(record.spec.get("resizePolicy"))
        disruptive = {each.get("resourceName") for each in rules if each.get("restartPolicy") == "RestartContainer"}
        if before.get("image") != record.spec.get("image") or resized & disruptive:
            record.restart = True
            text = f"Container {record.name} definition changed, will be restarted"
            self._parts.events.normal(self._pod(), "Killing", text)
            await self._parts.runtime.stop(record.state.id, self._grace_of_pod())
        elif resized:
            await self._parts.runtime.resize(record.state.id, limits_of(record.spec))
            record.resources = mapping(record.spec.get("resources"))
            self._changed()

    # Stopping

    async def stop(self, records: PodRecords, grace: Callable[[], float]) -> None:
        """All of them; sidecars after the containers, the last one first. A grace that shrinks meanwhile counts."""
        began = monotonic.monotonic()

        def left() -> float:
            return max(grace() - (monotonic.monotonic() - began), 0.0)

        for each in records:
            if each.running:
                self._parts.events.normal(self._pod(), "Killing", f"Stopping container {each.name}")
        plain = [each for each in records if not each.sidecar and each.running]
        await asyncio.gather(*(self._stop_within(each, left) for each in plain))
        for sidecar in reversed([each for each in records.inits if each.sidecar and each.running]):
            await self._stop_within(sidecar, left)

    async def _stop_within(self, record: ContainerRecord, left: Callable[[], float]) -> None:
        stopping = asyncio.create_task(self._stop_one(record, left()))
        probing = asyncio.create_task(self._probes(record).run_readiness(ready=record.ready))
        try:
            while not stopping.done():
                given = left()
                await asyncio.wait((stopping,), timeout=0.2)
                if not stopping.done() and left() < given - 1 and record.state is not None:
                    # Somebody shortened the grace period.
                    await self._parts.runtime.stop(record.state.id, left())
            await stopping
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)

    async def _stop_one(self, record: ContainerRecord, grace: float) -> None:
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
                self._parts.events.warning(self._pod(), "FailedPreStopHook", f"PreStopHook failed: {problem}")
            grace = max(grace - (monotonic.monotonic() - began), _LEAST_GRACE)
        number = stop_signal(record.spec)
        self._ended(record, await self._parts.runtime.stop(record.state.id, grace, number))
        self._changed()


def stop_signal(container: Object) -> int:
    name = str(mapping(container.get("lifecycle")).get("stopSignal") or "")
    return int(getattr(signal, name, SIGTERM)) if name.startswith("SIG") else int(SIGTERM)


def _resized(before: Object, now: Object) -> set[str]:
    """Resources whose amounts differ."""
    old, new = mapping(before.get("resources")), mapping(now.get("resources"))
    return {
        name
        for member in ("requests", "limits")
        for name in {*mapping(old.get(member)), *mapping(new.get(member))}
        if mapping(old.get(member)).get(name) != mapping(new.get(member)).get(name)
    }
