"""Runs of a pod's containers: started in order, probed, started again by their policy, stopped in the end."""

from __future__ import annotations

import asyncio
import time as monotonic
from collections.abc import Callable, Iterable

from dray.api.objects import Object, mapping, mappings, spec_of
from dray.node.container_control import ContainerControl
from dray.node.container_records import ContainerRecord, PodRecords, runs_again
from dray.node.limits import limits_of
from dray.process.tasks import end_tasks


class ContainerRuns:
    def __init__(self, control: ContainerControl) -> None:
        self.control = self._control = control
        self._parts, self._state = control.parts, control.state
        self._pod, self._changed = control.pod, control.changed
        self._beside: list[asyncio.Task[None]] = []
        """Tasks of ephemeral containers, and of changes to running containers."""
        self._ephemerals: set[str] | None = None
        """Names of the ephemeral containers that were started; None before the pod is set up."""

    async def run(self, records: PodRecords) -> None:
        """Runs containers until none runs or will run again; sidecars and ephemeral containers do not count.

        Cancelling it leaves containers running.
        """
        try:
            self.follow((), records.ephemerals, ready=True)
            await self._run(records.inits, records.containers)
        finally:
            await end_tasks(self._beside)
            self._beside.clear()
            self._ephemerals = None

    def is_over(self, records: PodRecords) -> bool:
        """Returns True if containers have run and none of them runs or will run again."""
        if any(record.running for record in records):
            return False
        if self._state.initialized:
            return all(record.state is not None and not self._again(record) for record in records.containers)
        failed = [record for record in records.inits if not record.sidecar and record.exit_code]
        return any(not self._again(record) for record in failed)

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
            await end_tasks(sidecars)

    async def _initialize(self, record: ContainerRecord) -> bool:
        """Runs an init container until it succeeds or is not started again. Returns True if it succeeded."""
        if record.exit_code != 0 or record.running:
            await self._keep(record)
        record.ready = record.exit_code == 0
        return record.exit_code == 0

    async def _until_started(self, record: ContainerRecord, keeping: asyncio.Task[None]) -> None:
        while not record.started and not keeping.done():
            await asyncio.sleep(0.02)

    async def _keep(self, record: ContainerRecord) -> None:
        """Runs a container, and again for as long as its restart policy says so."""
        if record.state is None:
            await self._control.start(record)
        if record.running or not record.messages:
            await self._control.follow(record)
        while self._again(record):
            self._changed()
            await self._back_off(record)
            await self._control.start(record)
            await self._control.follow(record)
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
            log = f"its output: kubectl logs {pod['name']} -n {pod['namespace']} -c {record.name} --previous"
            told = f"Back-off restarting failed container {record.name}: exit code {record.exit_code}; {log}"
            self._parts.events.warning(self._pod(), "BackOff", told)
            self._changed()
            # The rest of the backoff, if no agent ran meanwhile. The wall clock may have been set.
            left = record.state.finished_at + seconds - self._parts.time.now().timestamp()
            await self._control.pause(record, min(left, seconds))

    # Changes of a pod that runs

    def follow(
        self,
        changed: Iterable[tuple[ContainerRecord, Object]],
        ephemerals: Iterable[ContainerRecord],
        *,
        ready: bool = False,
    ) -> None:
        """Applies changed specs of containers, and starts new ephemeral containers once the pod is `ready` for them."""
        if ready:
            self._ephemerals = set()
        if self._ephemerals is None:
            return
        for record, before in changed:
            if record.running:
                self._beside.append(asyncio.create_task(self._change(record, before)))
            elif before.get("image") != record.spec.get("image"):
                self._control.wake(record)
        for record in ephemerals:
            if record.name not in self._ephemerals:
                self._ephemerals.add(record.name)
                self._beside.append(asyncio.create_task(self._once(record)))

    async def _once(self, record: ContainerRecord) -> None:
        """Runs an ephemeral container; it is never restarted or probed."""
        if record.state is None:
            await self._control.start(record)
        assert record.state is not None
        if record.running:
            record.started = True
            await self._control.wait(record)
        self._changed()

    async def _change(self, record: ContainerRecord, before: Object) -> None:
        """Applies a changed spec: restarts for a new image or by the resize policy, else resizes in place."""
        assert record.state is not None
        resized = _resized(before, record.spec)
        rules = mappings(record.spec.get("resizePolicy"))
        disruptive = {rule.get("resourceName") for rule in rules if rule.get("restartPolicy") == "RestartContainer"}
        if before.get("image") != record.spec.get("image") or resized & disruptive:
            record.restart = True
            text = f"Container {record.name} definition changed, will be restarted"
            self._parts.events.normal(self._pod(), "Killing", text)
            await self._control.end(record, self._control.grace_of_pod())
        elif resized:
            await self._parts.runtime.resize(record.state.id, limits_of(record.spec))
            record.resources = mapping(record.spec.get("resources"))
            self._changed()

    # Stopping

    async def stop(self, records: PodRecords, grace: Callable[[], float]) -> None:
        """Stops the containers, then the sidecars in reverse order. `grace()` may shrink meanwhile."""
        began = monotonic.monotonic()

        def left() -> float:
            return max(grace() - (monotonic.monotonic() - began), 0.0)

        for record in records:
            if record.running:
                self._parts.events.normal(self._pod(), "Killing", f"Stopping container {record.name}")
        plain = [record for record in records if not record.sidecar and record.running]
        await asyncio.gather(*(self._control.stop(record, left) for record in plain))
        for sidecar in reversed([record for record in records.inits if record.sidecar and record.running]):
            await self._control.stop(sidecar, left)


def _resized(before: Object, now: Object) -> set[str]:
    """Returns the resources whose amounts differ."""
    old, new = mapping(before.get("resources")), mapping(now.get("resources"))
    return {
        name
        for member in ("requests", "limits")
        for name in {*mapping(old.get(member)), *mapping(new.get(member))}
        if mapping(old.get(member)).get(name) != mapping(new.get(member)).get(name)
    }
