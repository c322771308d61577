"""Clean-ups: what a claim has changed on the machine is taken back, and tried again until that works.

A claim is released in any case: unprepare waits a few seconds for the clean-up, which goes on behind it. What is not
done by then is a leftover: on disk, tainted, and tried again with growing pauses. A GPU is locked while it is
changed, also against the other instance in a rolling update; GPUs do not wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from dray.driver import ClaimFailed, RecordedClaims, Taint
from dray.driver.serialization import DriverLock
from dray.drivers.devices.gpu import DRIVER
from dray.drivers.gpu.claim_state import ClaimState, RecordedState, recorded_states
from dray.drivers.gpu.discovery import FoundGpu
from dray.drivers.gpu.leftovers import Leftover, Leftovers
from dray.drivers.gpu.machine_changes import MachineChanges, Rest
from dray.drivers.gpu.threads import in_thread
from dray.node.runtimes.cancelling import finished
from dray.process.tasks import end_tasks

CLEAN_UP: Final = f"{DRIVER}/cleanup-pending"
# Seconds that a prepare waits for GPUs that are busy.
_LOCK_PATIENCE: Final = 25.0
# Of the pauses between attempts, in passes.
_LONGEST_PAUSE: Final = 3
_logger = logging.getLogger(__name__)


class GpuLocks:
    """One lock for each GPU, shared with other processes through files in `locks` of the driver's directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "locks"
        self._locks: dict[str, DriverLock] = {}

    @asynccontextmanager
    async def held(self, gpus: Iterable[str]) -> AsyncIterator[None]:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        async with AsyncExitStack() as stack:
            # In one order, so that two claims never wait for each other.
            for uuid in sorted(set(gpus)):
                lock = self._locks.setdefault(uuid, DriverLock(self._directory / uuid))
                await stack.enter_async_context(lock.held())
            yield


class CleanUps:
    """`patience` is for how many seconds unprepare waits for a clean-up."""

    def __init__(
        self,
        changes: MachineChanges,
        leftovers: Leftovers,
        locks: GpuLocks,
        recorded_claims: Callable[[], RecordedClaims],
        patience: float,
    ) -> None:
        self._patience = patience
        self._changes = changes
        self._leftovers = leftovers
        self._locks = locks
        self._recorded_claims = recorded_claims
        self._running: dict[str, asyncio.Task[Rest]] = {}
        self._released: set[str] = set()
        self._skipped: dict[str, int] = {}
        self._failures: dict[str, int] = {}

    async def others(self, uid: str) -> list[RecordedState]:
        """Returns what the records say of all claims but this one."""
        records = await asyncio.to_thread(self._recorded_claims)
        return recorded_states(records.claims, but=uid)

    @asynccontextmanager
    async def locked(self, state: ClaimState) -> AsyncIterator[None]:
        """Holds the GPUs of a claim that is prepared. Raises ClaimFailed if one of them is busy for long."""
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_LOCK_PATIENCE):
                    await stack.enter_async_context(self._locks.held(state.gpus))
            except TimeoutError:
                raise ClaimFailed(
                    f"the driver is still busy with GPU {', '.join(sorted(state.gpus))}: another claim is prepared or "
                    "cleaned up there"
                ) from None
            yield

    async def release(self, uid: str, about: str, state: ClaimState) -> ClaimState:
        """Undoes the changes of the claim that can be undone now. Returns the changes that are left for later."""
        if state.is_clean:
            return ClaimState()
        self._released.add(uid)
        task = self._running.get(uid)
        if task is None:
            task = asyncio.create_task(self._take_back(uid, state), name=f"clean up after {about}")
            self._running[uid] = task
            task.add_done_callback(lambda _: self._running.pop(uid, None))
        await asyncio.wait([task], timeout=self._patience)
        rest = task.result() if task.done() else Rest(state, "the clean-up is still under way")
        await self._keep(Leftover(uid=uid, about=about, state=rest.state, reason=rest.reason))
        return rest.state

    async def _take_back(self, uid: str, state: ClaimState) -> Rest:
        async with self._locks.held(state.gpus):
            others = await self.others(uid)
            return await finished(in_thread(self._changes.take_back, state, others))

    async def _keep(self, leftover: Leftover) -> None:
        before = self._leftovers.known.get(leftover.uid)
        if leftover.state.is_clean:
            if before is not None:
                await asyncio.to_thread(self._leftovers.remove, leftover.uid)
                _logger.warning("cleaned up after %s", leftover.about)
            return
        if before is None or before.state != leftover.state:
            await asyncio.to_thread(self._leftovers.put, leftover)
        if before is None:
            _logger.error("clean-up after %s is tried again later: %s", leftover.about, leftover.reason)

    async def clear(self, uid: str, wanted: ClaimState) -> None:
        """Tries to clean up what is left where a claim wants to be."""
        self._released.discard(uid)
        for leftover in self._blocking(uid, wanted):
            await self.release(leftover.uid, leftover.about, leftover.state)

    def check(self, uid: str, wanted: ClaimState) -> None:
        """Raises ClaimFailed while something is left where a claim wants to be."""
        for leftover in self._blocking(uid, wanted):
            raise ClaimFailed(f"the GPU is not cleaned up after {leftover.about} yet: {leftover.reason}")

    def _blocking(self, uid: str, wanted: ClaimState) -> list[Leftover]:
        known = self._leftovers.known.values()
        return [leftover for leftover in known if leftover.uid == uid or leftover.blocks(wanted)]

    async def retry(self) -> None:
        """Tries what is left again: first at once, then with longer pauses."""
        await asyncio.to_thread(self._leftovers.read)
        records = await asyncio.to_thread(self._recorded_claims)
        claims = {claim.reference.uid for claim in records.claims}
        self._released &= claims
        self._failures = {uid: count for uid, count in self._failures.items() if uid in self._leftovers.known}
        # A claim that has a record is unprepared by the kubelet again.
        busy = claims | self._running.keys()
        waiting = [leftover for uid, leftover in self._leftovers.known.items() if uid not in busy]
        await asyncio.gather(*(self._retry(leftover) for leftover in waiting))

    async def _retry(self, leftover: Leftover) -> None:
        uid = leftover.uid
        if self._skipped.get(uid, 0) < min(self._failures.get(uid, 0), _LONGEST_PAUSE) - 1:
            self._skipped[uid] = self._skipped.get(uid, 0) + 1
            return
        self._skipped[uid] = 0
        rest = await self.release(uid, leftover.about, leftover.state)
        self._failures[uid] = 0 if rest.is_clean else self._failures.get(uid, 0) + 1

    @property
    def released(self) -> set[str]:
        """Uids of claims that are being unprepared, or were and have left something. Some still have a record."""
        return self._released | set(self._leftovers.known)

    def taints(self, found: FoundGpu, device: str, *, is_informing: bool) -> tuple[Taint, ...]:
        """Returns at most one taint. `is_informing` if the API server takes taints without effect."""
        taints = [
            Taint(CLEAN_UP, problem, "NoSchedule" if leftover.hinders(found, device) else "None")
            for problem, leftover in self._problems(found, device)
        ]
        taints = [taint for taint in taints if is_informing or taint.effect != "None"]
        return tuple(sorted(taints, key=lambda taint: taint.effect == "None")[:1])

    def told(self, found: FoundGpu, device: str) -> list[str]:
        """Returns why the device cannot be used, for its health."""
        return [
            f"clean-up after {leftover.about} is pending: {problem}"
            for problem, leftover in self._problems(found, device)
            if leftover.hinders(found, device)
        ]

    def _problems(self, found: FoundGpu, device: str) -> Sequence[tuple[str, Leftover]]:
        known = self._leftovers.known.values()
        problems = [(leftover.problem(found, device), leftover) for leftover in known]
        return [(problem, leftover) for problem, leftover in problems if problem]

    async def stop(self) -> None:
        await end_tasks(self._running.values())
