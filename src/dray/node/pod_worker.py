"""Pod worker: takes one pod from its binding to its end on this node, as a kubelet does.

    set up         volumes, claims prepared by their drivers, sandbox
    run            init containers one after the other, sidecars beside them, then the containers
    stop           when the pod is deleted or past its deadline: hooks, SIGTERM, grace, SIGKILL, sidecars last
    end            claims unprepared, the last status written, the pod removed from the API server if it was deleted

Containers outlive the agent: a worker of the next agent finds them and goes on from there. What fails is tried again,
with an event that says why, for as long as the pod is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from dray.api.objects import Object, is_deleting, key_of, metadata_of, spec_of, status_of, uid_of
from dray.api.pods import is_terminal
from dray.api.times import after
from dray.client.clock import Deadlines, moment, timestamp
from dray.client.errors import ClientError
from dray.node.container_control import ContainerControl
from dray.node.container_devices import pod_cdi_ids, prepared_cdi_ids
from dray.node.container_records import LOST_MESSAGE, lost_run, records_of
from dray.node.container_runs import ContainerRuns
from dray.node.errors import NodeError, PrepareError, UnprepareError, described
from dray.node.eviction import storage
from dray.node.eviction.ranking import PodConsumption
from dray.node.node_parts import NodeParts
from dray.node.pod_admission import Refusal
from dray.node.pod_status import PodState, status
from dray.node.pod_status_writer import PodStatusWriter
from dray.node.runtimes.interface import StartError
from dray.process.tasks import end_tasks

_logger = logging.getLogger(__name__)
_FIRST_RETRY: Final = 0.5
_LONGEST_RETRY: Final = 20.0
# Grace period of a pod that vanished from the API server without being deleted on this node first.
_FORCED_GRACE: Final = 2.0
DEFAULT_GRACE: Final = 30.0


Admit = Callable[["PodWorker"], Awaitable[Refusal | None]]


class PodWorker:
    def __init__(
        self,
        pod: Object,
        parts: NodeParts,
        mirror: Callable[[], Object | None] | None = None,
        admit: Admit | None = None,
    ) -> None:
        """`mirror` returns the mirror pod of a static pod. `admit` is called once, before anything else is done."""
        self.pod = pod
        self._mirror = mirror
        self._parts = parts
        # A pod with a start time was admitted by an earlier agent.
        self._admit = None if status_of(pod).get("startTime") else admit
        self.records = records_of(pod)
        start = str(status_of(pod).get("startTime") or "") or timestamp(parts.time.now())
        self.state = PodState(parts.host_ip, start_time=start)
        self._deadlines = Deadlines(parts.time)
        self._stopping = asyncio.Event()
        self._failed = asyncio.Event()
        self._updated = asyncio.Event()
        self._judged = asyncio.Event()
        """Set once the node has admitted or refused the pod. No status is written before."""
        self._forced_grace: float | None = None
        self._gone = False
        self._broken = False
        """True if a run of the worker failed."""
        self._writer = PodStatusWriter(parts.client, mirror or (lambda: self.pod), self._status)
        self._runs = ContainerRuns(ContainerControl(parts, lambda: self.pod, self.state, self.changed))
        if is_deleting(pod):
            self._stopping.set()

    def update(self, pod: Object) -> None:
        """Takes over a change of the pod at the API server."""
        self.pod = pod
        self._updated.set()
        self._runs.follow(self.records.follow(pod), self.records.ephemerals)
        if is_deleting(pod):
            self._stopping.set()
        self._writer.changed()

    @property
    def is_static(self) -> bool:
        return self._mirror is not None

    def stop(self) -> None:
        """Stops the pod, such as a static pod whose manifest file was removed."""
        self._stopping.set()

    def fail(self, reason: str, message: str, *, grace: float | None = None) -> bool:
        """Ends the pod as failed, whatever its restart policy. Returns True if it was not ending already."""
        if self._stopping.is_set() or self._failed.is_set() or self.state.ended:
            return False
        self.state.reason, self.state.message = reason, message
        self._forced_grace = grace
        self._failed.set()
        return True

    @property
    def takes_room(self) -> bool:
        """Returns True if the pod uses resources of the node."""
        return not (self.state.ended or self._gone or (self._failed.is_set() and not self.state.sandbox))

    def vanish(self) -> None:
        """Stops the pod because it was removed from the API server."""
        self._gone = True
        self._stopping.set()

    def changed(self) -> None:
        """Updates the status after a change of containers or device health."""
        self._writer.changed()

    async def run(self) -> None:
        """Returns when nothing of the pod is left here. Cancelling it leaves the containers running."""
        writing = asyncio.create_task(self._write_statuses())
        try:
            if self._broken and self._stopping.is_set():
                await self._clear()
            else:
                await self._run()
        except Exception:
            self._broken = True
            raise
        finally:
            await end_tasks((writing,))

    async def _write_statuses(self) -> None:
        await self._judged.wait()
        await self._writer.run()

    async def pause(self, seconds: float) -> None:
        """Waits before the next run. The wait ends early when the pod is to be removed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    async def _run(self) -> None:
        await self._find_containers()
        if is_terminal(self.pod):
            # An earlier agent ended the pod and wrote its final status.
            self._writer.close()
        else:
            admitted = await self._is_admitted()
            # A restarted worker does not ask for admission again: containers of the pod may run.
            self._admit = None
            self._judged.set()
            self._writer.changed()
            if admitted:
                await self._live()
        await self._stop()
        await self._release()
        self.state.ended = True
        if not self._gone:
            await self._writer.flush()
            await self._parts.runtime.stop_sandbox(uid_of(self.pod))
        await self._stopping.wait()
        await self._remove()

    async def _clear(self) -> None:
        """Ends a pod whose worker failed before; skips every step that may have been the reason."""
        await self._parts.runtime.remove_sandbox(uid_of(self.pod))
        await self._release()
        self.state.ended = True
        await self._remove()

    def _status(self) -> Object:
        now = timestamp(self._parts.time.now())
        devices = self._parts.dra.allocated_resources(self.pod)
        shown = self._mirror() if self._mirror is not None else None
        return status(shown or self.pod, self.state, self.records, now=now, devices=devices)

    # What it uses

    async def consumption(self) -> PodConsumption:
        memory = {}
        for record in self.records:
            if record.state is not None and record.running:
                used = await self._parts.runtime.usage(record.state.id)
                memory[record.name] = used.memory_bytes if used is not None else 0
        _, written = self.places()
        return PodConsumption(self.pod, memory, await asyncio.to_thread(storage.size, written))

    def places(self) -> tuple[Path, list[Path]]:
        """Returns the directory of its volumes, and all directories that it writes to."""
        return self._parts.setup.volumes_of(self.pod), self._parts.setup.written_by(self.pod)

    # Run

    async def _is_admitted(self) -> bool:
        refusal = await self._admit(self) if self._admit is not None and not is_deleting(self.pod) else None
        if refusal is None:
            return True
        self.fail(refusal.reason, f"Pod was rejected: {refusal.message}")
        self.state.rejected = True
        self._parts.events.warning(self.pod, refusal.reason, refusal.message)
        return False

    async def _find_containers(self) -> None:
        """Takes over containers that an earlier agent started."""
        containers = await self._parts.runtime.containers()
        self._parts.setup.release_mounts(uid_of(self.pod))
        for found in sorted(containers, key=lambda each: each.attempt):
            if found.pod_uid == uid_of(self.pod) and (record := self.records.find(found.name)) is not None:
                record.began(found)
                if not found.running:
                    self._runs.control.ended(record, found)
        self._find_lost_runs()
        if any(record.attempt >= 0 for record in self.records.containers):
            self.state.initialized = True

    def _find_lost_runs(self) -> None:
        """Records runs that the pod's status names and the runtime does not know, because they were removed.

        They count as runs: a pod that is never restarted has failed.
        """
        now = self._parts.time.now().timestamp()
        for record in self.records:
            if record.attempt < 0 and (lost := lost_run(self.pod, record, now)) is not None:
                record.began(lost)
                record.ended(lost, LOST_MESSAGE if lost.finished_at == now else "")

    async def _live(self) -> None:
        """Sets up and runs the pod until its containers have ended for good, or the pod has to stop or has failed."""
        if self._stopping.is_set():
            return
        living = asyncio.create_task(self._set_up_and_run())
        ends = [
            asyncio.create_task(waiting) for waiting in (self._stopping.wait(), self._failed.wait(), self._deadline())
        ]
        try:
            await asyncio.wait((living, *ends), return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
        finally:
            await end_tasks((living, *ends))

    async def _deadline(self) -> None:
        while (left := self._seconds_left()) is None or left > 0:
            # The deadline may be set or shortened while the pod runs.
            self._updated.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._updated.wait()
        message = "Pod was active on the node longer than the specified deadline"
        if self.fail("DeadlineExceeded", message):
            self._parts.events.normal(self.pod, "DeadlineExceeded", message)

    def _seconds_left(self) -> float | None:
        allowed = spec_of(self.pod).get("activeDeadlineSeconds")
        if allowed is None:
            return None
        return self._deadlines.left("end", after(moment(self.state.start_time), float(allowed)))

    async def _set_up_and_run(self) -> None:
        if self._runs.is_over(self.records):
            # The pod ended while no agent ran. Its devices may be gone, and are not needed any more.
            return
        await self._trying("FailedMount", lambda: self._parts.setup.prepare(self.pod))
        if not any(record.running for record in self.records):
            await self._trying("FailedPrepareDynamicResources", self._prepare_claims)
        await self._trying("FailedCreatePodSandBox", self._sandbox)
        refreshing = asyncio.create_task(self._refresh())
        try:
            await self._runs.run(self.records)
        finally:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)

    async def _prepare_claims(self) -> None:
        try:
            await self._parts.dra.manager.prepare(self.pod)
            await self._follow_claims()
        except PrepareError as error:
            raise PrepareError(f"Failed to prepare dynamic resources: {error}") from None

    async def _sandbox(self) -> None:
        devices = pod_cdi_ids(self._parts.dra.manager.cache, self.pod)
        config = replace(self._parts.setup.sandbox(self.pod), cdi_devices=tuple(devices))
        sandbox = await self._parts.runtime.create_sandbox(config)
        self.state.pod_ip, self.state.sandbox = sandbox.ip, True
        self.changed()

    async def _refresh(self) -> None:
        """Updates files made from ConfigMaps, Secrets, fields and tokens."""
        while True:
            await asyncio.sleep(self._parts.refresh_seconds)
            try:
                await self._parts.setup.refresh(self.pod)
            except (NodeError, ClientError, OSError):
                pass
            except Exception:
                _logger.exception("Pod %s/%s: its volumes cannot be refreshed", *key_of(self.pod))

    async def _trying(self, reason: str, work: Callable[[], Awaitable[None]]) -> None:
        """Retries until it succeeds. Writes an event for each failure, so that no pod can end its worker."""
        delay = _FIRST_RETRY
        while True:
            try:
                await work()
                return
            except (NodeError, StartError, ClientError, OSError) as error:
                self._parts.events.warning(self.pod, reason, described(error))
            except Exception as error:
                if delay == _FIRST_RETRY:
                    _logger.exception("Pod %s/%s: %s", *key_of(self.pod), reason)
                self._parts.events.warning(self.pod, reason, described(error))
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY)

    # Stop and end

    def _grace(self) -> float:
        """Returns the seconds that are left of the grace period of its containers."""
        if self._gone:
            return _FORCED_GRACE
        if self._forced_grace is not None and not is_deleting(self.pod):
            return self._forced_grace
        given = metadata_of(self.pod).get("deletionGracePeriodSeconds")
        if given is None:
            given = spec_of(self.pod).get("terminationGracePeriodSeconds")
        # A negative grace period means one second, as in Kubernetes.
        return DEFAULT_GRACE if given is None else 1.0 if given < 0 else float(given)

    async def _find_started(self) -> None:
        """Records containers that started although their start was cancelled."""
        for found in await self._parts.runtime.containers():
            record = self.records.find(found.name) if found.pod_uid == uid_of(self.pod) else None
            if record is not None and found.attempt > record.attempt:
                record.began(found)

    async def _stop(self) -> None:
        await self._find_started()
        if any(record.running for record in self.records):
            await self._runs.stop(self.records, self._grace)

    async def _release(self) -> None:
        """Unprepares the claims, with retries, before the pod counts as ended."""
        delay = _FIRST_RETRY
        while True:
            try:
                await self._parts.dra.manager.unprepare(uid_of(self.pod))
                await self._follow_claims()
                return
            except UnprepareError as error:
                _logger.warning("Pod %s/%s: %s", *key_of(self.pod), error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY)

    async def _follow_claims(self) -> None:
        await self._parts.runtime.follow_claims(prepared_cdi_ids(self._parts.dra.manager.cache))

    async def _remove(self) -> None:
        await self._parts.runtime.remove_sandbox(uid_of(self.pod))
        await self._parts.setup.remove(uid_of(self.pod))
        if not self._gone and not self.is_static:
            await self._writer.remove_pod()
