"""The GPU driver behind the SDK: publishes GPUs and partitions, and prepares them as claims are configured.

What is done for a claim is written into its record first (`claim_state`), then done, and undone from the record
alone. Unprepare never depends on a healthy GPU: what cannot be undone is left to `clean_ups`. At the start the machine
is brought to what the records say (`recovery`). All calls of NVML and of programs are made in threads and have time
limits; a change of the machine is never left half way because its caller has given up.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Final

from dray.client.api import ApiClient
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.client.log_throttling import ThrottledLog
from dray.driver import (
    Claim,
    ClaimFailed,
    Config,
    ContainerEdits,
    DeviceHealth,
    DeviceUtilization,
    Driver,
    Pool,
    Prepared,
    PreparedClaim,
    PreparedDevice,
    RecordedClaims,
)
from dray.drivers.devices.gpu import DRIVER
from dray.drivers.devices.gpu_configs import CONFIGS
from dray.drivers.gpu.claim_state import ClaimState, RecordedState, recorded_states, state_of, understood
from dray.drivers.gpu.clean_ups import CleanUps, GpuLocks
from dray.drivers.gpu.container_edits import GpuEdits
from dray.drivers.gpu.device_files import DeviceFiles
from dray.drivers.gpu.device_states import DeviceStates
from dray.drivers.gpu.discovery import Found, discover
from dray.drivers.gpu.driver_files import find_driver_files
from dray.drivers.gpu.driver_programs import DriverPrograms
from dray.drivers.gpu.health import HealthMonitor
from dray.drivers.gpu.kernel_module import KernelModule
from dray.drivers.gpu.leftovers import Leftovers
from dray.drivers.gpu.machine_changes import MachineChanges, check_agreement
from dray.drivers.gpu.mps import MpsDaemons
from dray.drivers.gpu.nvml_calls import CALLS, NvmlError
from dray.drivers.gpu.nvml_session import Nvml
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.gpu.partitions import Partitions
from dray.drivers.gpu.planning import planned_state
from dray.drivers.gpu.prepared_devices import PreparedDevices
from dray.drivers.gpu.recovery import Recovery, cut_gpus
from dray.drivers.gpu.sharing import Wanted, published_gates, wanted_devices
from dray.drivers.gpu.threads import in_thread
from dray.drivers.gpu.time_slices import TimeSlices
from dray.drivers.gpu.utilization import read_utilization
from dray.node.runtimes.cancelling import finished
from dray.process.tasks import end_tasks

_logger = logging.getLogger(__name__)

# While this file is in the driver's directory, NVML is closed.
RELEASE: Final = "release-nvml"
# The release of Kubernetes, 1.35, whose API servers take taints without effect.
_INFORMING: Final = 35


class GpuDriver(Driver):
    """Publishes NVIDIA GPUs and MIG partitions and prepares them for claims."""

    name = DRIVER
    configs: ClassVar[Sequence[type[Config]]] = CONFIGS
    cdi_kind = "k8s.gpu.nvidia.com/claim"
    # GPUs have locks of their own: one that hangs does not hold up claims on others.
    serialize = False
    # It has taints of its own, which say what is wrong.
    unhealthy_effect = ""
    Options = GpuOptions

    def __init__(self, options: GpuOptions | None = None) -> None:
        """Raises DriverError where the machine has no NVIDIA driver."""
        self._options = options or GpuOptions()
        self._files = find_driver_files(self._options.driver_root, self._options.host_driver_root)
        CALLS.seconds = self._options.nvml_seconds
        is_held = self._options.health_check or self._options.dynamic_mig
        module = KernelModule(self._options.proc, self._options.sysfs)
        library, pause = self._files.management_library, self._options.check_seconds
        self._nvml = Nvml(library, module, is_held=is_held, pause=pause)
        self._monitor = HealthMonitor(self._nvml, self._options)
        self._found = Found()
        self._is_started = False
        self._published: object = None
        self._tasks: list[asyncio.Task[None]] = []
        self._log = ThrottledLog(_logger)

    @cached_property
    def _changes(self) -> MachineChanges:
        daemons = MpsDaemons(self._nvml, self._programs, self.context.directory, self._options.mps_shared_memory)
        return MachineChanges(TimeSlices(self._nvml, self._programs), daemons, Partitions(self._nvml))

    @cached_property
    def _programs(self) -> DriverPrograms:
        return DriverPrograms(self._files, self.context.directory / "libraries")

    @cached_property
    def _locks(self) -> GpuLocks:
        return GpuLocks(self.context.directory)

    @cached_property
    def _clean_ups(self) -> CleanUps:
        leftovers = Leftovers(self.context.directory, self._options.boot_id)
        patience = self._options.nvml_seconds
        return CleanUps(self._changes, leftovers, self._locks, self._records, patience)

    @cached_property
    def _recovery(self) -> Recovery:
        return Recovery(self._changes, self._clean_ups, self._locks, self._records)

    @cached_property
    def _states(self) -> DeviceStates:
        return DeviceStates(self._monitor, self._clean_ups, self._recovery)

    @cached_property
    def _events(self) -> EventRecorder:
        return EventRecorder(self.context.client, DRIVER)

    async def start(self) -> None:
        self._nvml.released_by = self.context.directory / RELEASE
        self._monitor.is_informing = await _minor_version(self.context.client) >= _INFORMING
        self._monitor.may_renew = self._has_no_partitions
        self._is_started = True
        # Without NVML there is nothing to publish yet, and claims can be released.
        with suppress(NvmlError):
            await self._discover()
        for line in self._found.left_out:
            _logger.warning("left out: %s", line)
        await self._clean_up()
        await self._supervise()
        options = self._options
        work = (
            self._repeat(options.check_seconds, self._clean_up),
            self._repeat(options.check_seconds, self._supervise),
            self._repeat(options.discovery_seconds, self._rediscover),
            self._events.run(),
        )
        self._tasks += [asyncio.create_task(coroutine) for coroutine in work]

    def _has_no_partitions(self) -> bool:
        """While no process has it open, a GPU may lose its MIG mode, and partitions that were made for claims."""
        return not any(state.state.partitions for state in recorded_states(self._records().claims))

    def _records(self) -> RecordedClaims:
        return understood(self.context.recorded_claims())

    async def stop(self) -> None:
        await end_tasks(self._tasks)
        await self._clean_ups.stop()
        await in_thread(self._monitor.close)
        await in_thread(self._nvml.close)

    async def pools(self) -> Sequence[Pool]:
        if not self._is_started:
            await self._discover()
            return [self._found.pool(self.context.node_name, self._options)]
        found, states = self._found, self._states
        self._published = states.taints(found)
        pool = found.pool(self.context.node_name, self._options)
        slices = [states.tainted(slice_, found) for slice_ in pool.slices]
        return [replace(pool, devices=states.tainted(pool.devices, found), slices=slices)]

    async def left_out(self) -> Sequence[str]:
        return self._found.left_out

    def device_files(self) -> Sequence[str]:
        return [f"{self._options.dev}/nvidia[0-9]*", f"{self._options.dev}/nvidia-caps/nvidia-cap[0-9]*"]

    async def prepare(self, claim: Claim) -> Prepared:
        wanted = wanted_devices(claim.devices, self._found, self._options)
        state = planned_state(claim.uid, wanted, self._options)
        await self._clean_ups.clear(claim.uid, state)
        async with self._clean_ups.locked(state):
            self._clean_ups.check(claim.uid, state)
            others = await self._clean_ups.others(claim.uid)
            check_agreement(state, others)
            await self._forget_former(claim, state, others)
            await claim.record(state.document())
            try:
                edits, prepared, missing = await finished(in_thread(self._make, wanted, state))
            except NvmlError as error:
                self._monitor.refused((device.found.gpu.uuid for device in wanted), error)
                self._publish_changes()
                raise
        for gate in published_gates(wanted):
            message = f"NVIDIA's own driver takes this configuration only with its feature gate {gate}, off by default"
            self._events.normal(claim.document, "NeedsFeatureGate", message)
        if missing:
            message = (
                f"CUDA needs {' and '.join(missing)}: load the kernel module nvidia-uvm and run nvidia-modprobe -u"
            )
            self._events.warning(claim.document, "MissingDeviceFile", message)
        return Prepared(prepared, state.document(), edits)

    def _make(
        self, wanted: Sequence[Wanted], state: ClaimState
    ) -> tuple[ContainerEdits, list[PreparedDevice], list[str]]:
        """Returns what the containers get, the devices, and which device files are missing that CUDA needs."""
        with self._nvml.opened():
            version = self._nvml.driver_version
        edits = GpuEdits(self._programs, self._options, version)
        common = edits.common()
        devices = PreparedDevices(self._changes, edits, self._options.proc).make(wanted, state)
        return common, devices, edits.missing_files()

    async def _forget_former(self, claim: Claim, state: ClaimState, others: Sequence[RecordedState]) -> None:
        """Takes back what the claim had before, where the driver with other settings would do otherwise now."""
        former = state_of(claim.previous.state if claim.previous else None)
        if former not in (state, ClaimState()):
            rest = await finished(in_thread(self._changes.take_back, former, others))
            if not rest.state.is_clean:
                raise ClaimFailed(f"what the claim had before cannot be taken back: {rest.reason}")

    async def unprepare(self, claim: PreparedClaim) -> None:
        reference = claim.reference
        rest = await self._clean_ups.release(reference.uid, f"claim {reference}", state_of(claim.state))
        if not rest.is_clean:
            metadata = {"namespace": reference.namespace, "name": reference.name, "uid": reference.uid}
            about = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
            message = "released; the clean-up of its GPU failed and is tried again, and the GPU is tainted until then"
            self._events.warning(about, "CleanUpPending", message)
            self._publish_changes()

    async def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """Yields when something has changed; taints are published with every change."""
        reports: Sequence[DeviceHealth] | None = None
        if self._options.health_check:
            self._monitor.watch(self._found.gpus)
        while True:
            if self._options.health_check:
                await finished(in_thread(self._monitor.step))
            before, reports = reports, self._states.reports(self.context.node_name, self._found)
            if reports != before:
                self._publish_changes()
                yield reports
            if not self._options.health_check:
                await asyncio.sleep(self._options.check_seconds)

    async def utilization(self) -> Sequence[DeviceUtilization]:
        if not self._nvml.is_held:
            # A session that is opened anew may initialize all GPUs, which takes seconds.
            return ()
        return await in_thread(read_utilization, self._nvml, self._found, self._monitor.lost, self.context.node_name)

    def _publish_changes(self) -> None:
        if self._states.taints(self._found) != self._published:
            self.context.publish()

    async def _discover(self) -> None:
        """A GPU that does not answer stays: its taint says so."""
        files = DeviceFiles(self._programs, self._options)
        try:
            found = await in_thread(discover, self._nvml, self._options, files, self._found.gpus)
        except NvmlError as error:
            self._monitor.failed("discovery", error)
            self._renew_session()
            raise
        self._monitor.failed("discovery", None)
        self._monitor.unreadable(found.faults)
        if (found.left_out or found.faults) and len(found.faults) == len(found.gpus):
            self._renew_session()
        there = {found_gpu.gpu.uuid for found_gpu in found.gpus}
        lost = [found_gpu for found_gpu in self._found.gpus if found_gpu.gpu.uuid in self._monitor.lost - there]
        self._found = found.with_lost(lost)

    def _renew_session(self) -> None:
        """Has NVML opened again: without GPUs to check, nothing else would notice that the session is broken."""
        if self._monitor.may_renew():
            self._nvml.renew()

    async def _rediscover(self) -> None:
        """GPUs come late, and partitions are made by administrators."""
        before = self._found
        with suppress(NvmlError):
            await self._discover()
        known = {_gpu_of(line) for line in before.left_out}
        for line in self._found.left_out:
            if _gpu_of(line) not in known:
                _logger.warning("left out: %s", line)
        if self._found != before:
            if self._options.health_check:
                self._monitor.watch(self._found.gpus)
            self.context.publish()
        self._publish_changes()

    async def _clean_up(self) -> None:
        await self._clean_ups.retry()
        await self._recovery.sweep(cut_gpus(self._found.gpus))
        self._publish_changes()

    async def _supervise(self) -> None:
        await self._recovery.supervise()

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:
                # Whatever it is, the next check must come.
                self._log.warning(work, "a periodic check of the GPUs failed: %s: %s", type(error).__name__, error)


def _gpu_of(left_out: str) -> str:
    return left_out.partition(": ")[0]


async def _minor_version(client: ApiClient) -> int:
    """Returns the API server's minor version; the largest number if it is unknown."""
    try:
        stated = str((await client.request("GET", "/version")).get("minor", ""))
    except ClientError:
        return sys.maxsize
    digits = re.match(r"\d+", stated)
    return int(digits[0]) if digits else sys.maxsize
