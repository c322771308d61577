"""The GPU driver behind the SDK: publishes GPUs and partitions, and prepares them as claims are configured.

What is done for a claim is written into its record first (`claim_state`), then done, and undone from the record
alone. At the start the machine is brought to what the records say: partitions and daemons that belong to no claim go,
daemons that died are started again. All calls of NVML and of programs are made in threads; a change of the machine is
never left half way because its caller has given up.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Final

from dray.client.api import ApiClient
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.client.log_throttling import ThrottledLog
from dray.driver import (
    Claim,
    Config,
    Device,
    DeviceHealth,
    Driver,
    DriverError,
    Pool,
    Prepared,
    PreparedClaim,
)
from dray.drivers.devices.gpu import DRIVER
from dray.drivers.devices.gpu_configs import CONFIGS
from dray.drivers.gpu.claim_state import ClaimState, RecordedState, recorded_states, state_of
from dray.drivers.gpu.container_edits import GpuEdits
from dray.drivers.gpu.discovery import Found, discover
from dray.drivers.gpu.driver_files import find_driver_files
from dray.drivers.gpu.health import HealthMonitor
from dray.drivers.gpu.machine_changes import MachineChanges, check_agreement
from dray.drivers.gpu.mps import MpsDaemons
from dray.drivers.gpu.nvml import Nvml
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.gpu.partitions import Partitions
from dray.drivers.gpu.planning import planned_state
from dray.drivers.gpu.prepared_devices import PreparedDevices
from dray.drivers.gpu.recovery import Recovery
from dray.drivers.gpu.sharing import published_gates, wanted_devices
from dray.drivers.gpu.time_slices import TimeSlices
from dray.node.runtimes.cancelling import finished
from dray.process.tasks import end_tasks

_logger = logging.getLogger(__name__)

# Seconds between looks at the daemons, and at what GPUs there are.
_SUPERVISION: Final = 5.0
_DISCOVERY: Final = 30.0
# The release of Kubernetes, 1.35, whose API servers take taints without effect.
_INFORMING: Final = 35


class GpuDriver(Driver):
    """NVIDIA GPUs."""

    name = DRIVER
    configs: ClassVar[Sequence[type[Config]]] = CONFIGS
    cdi_kind = "k8s.gpu.nvidia.com/claim"
    # It has taints of its own, which say what is wrong.
    unhealthy_effect = ""
    Options = GpuOptions

    def __init__(self, options: GpuOptions | None = None) -> None:
        """Raises DriverError where the machine has no NVIDIA driver."""
        self._options = options or GpuOptions()
        self._files = find_driver_files(self._options.driver_root, self._options.host_driver_root)
        self._nvml = Nvml(self._files.management_library)
        self._monitor = HealthMonitor(self._nvml, self._options)
        self._found = Found()
        self._changing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._log = ThrottledLog(_logger)

    @cached_property
    def _changes(self) -> MachineChanges:
        daemons = MpsDaemons(self._nvml, self._files, self.context.directory, self._options.mps_shared_memory)
        return MachineChanges(TimeSlices(self._nvml, self._files), daemons, Partitions(self._nvml))

    @cached_property
    def _recovery(self) -> Recovery:
        return Recovery(self._changes, self.context.recorded_claims)

    @cached_property
    def _events(self) -> EventRecorder:
        return EventRecorder(self.context.client, DRIVER)

    async def start(self) -> None:
        self._monitor.is_informing = await _minor_version(self.context.client) >= _INFORMING
        await self._discover()
        for each in self._found.left_out:
            _logger.warning("left out: %s", each)
        cut = [each for each in self._found.gpus if each.is_cut]
        await finished(asyncio.to_thread(self._recovery.recover, cut))
        work = (self._supervise(), self._rediscover(), self._events.run())
        self._tasks += [asyncio.create_task(each) for each in work]

    async def stop(self) -> None:
        await end_tasks(self._tasks)
        self._monitor.close()
        self._nvml.close()

    async def pools(self) -> Sequence[Pool]:
        await self._discover()
        pool = self._found.pool(self.context.node_name, self._options)
        return [replace(pool, devices=self._tainted(pool.devices), slices=[*map(self._tainted, pool.slices)])]

    async def left_out(self) -> Sequence[str]:
        return self._found.left_out

    async def prepare(self, claim: Claim) -> Prepared:
        wanted = wanted_devices(claim.devices, self._found, self._options)
        state = planned_state(claim.uid, wanted, self._options)
        async with self._changing:
            records = await asyncio.to_thread(self.context.recorded_claims)
            others = recorded_states(records.claims, but=claim.uid)
            check_agreement(state, others)
            await self._forget_former(claim, state, others)
            await claim.record(state.document())
            edits = GpuEdits(self._files, self._options, self._nvml.driver_version)
            devices = PreparedDevices(self._changes, edits, self._options.proc)
            prepared = await finished(asyncio.to_thread(devices.make, wanted, state))
        for gate in published_gates(wanted):
            message = f"NVIDIA's own driver takes this configuration only with its feature gate {gate}, off by default"
            self._events.normal(claim.document, "NeedsFeatureGate", message)
        return Prepared(prepared, state.document())

    async def _forget_former(self, claim: Claim, state: ClaimState, others: Sequence[RecordedState]) -> None:
        """Takes back what the claim had before, where the driver with other settings would do otherwise now."""
        former = state_of(claim.previous.state if claim.previous else None)
        if former not in (state, ClaimState()):
            await finished(asyncio.to_thread(self._changes.take_back, former, others))

    async def unprepare(self, claim: PreparedClaim) -> None:
        async with self._changing:
            records = await asyncio.to_thread(self.context.recorded_claims)
            others = recorded_states(records.claims, but=claim.reference.uid)
            await finished(asyncio.to_thread(self._changes.take_back, state_of(claim.state), others))

    async def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """Taints are published with every change."""
        if not self._options.health_check:
            yield self._reports()
            await asyncio.Event().wait()
        await asyncio.to_thread(self._monitor.watch, self._found.gpus)
        self.context.publish()
        yield self._reports()
        while True:
            if await finished(asyncio.to_thread(self._monitor.step)):
                self.context.publish()
                yield self._reports()

    def _reports(self) -> list[DeviceHealth]:
        pool = self.context.node_name
        return [self._monitor.report(pool, uuid, device) for uuid, device in self._offered()]

    def _offered(self) -> list[tuple[str, str]]:
        """UUIDs of GPUs and names of devices."""
        return [
            (each.gpu.uuid, name)
            for each in self._found.gpus
            for name in (*([each.gpu.name] if each.is_offered_whole else []), *each.partitions)
        ]

    def _tainted(self, devices: Sequence[Device]) -> list[Device]:
        uuids = {device: uuid for uuid, device in self._offered()}
        return [replace(each, taints=self._monitor.taints(uuids[each.name], each.name)) for each in devices]

    async def _discover(self) -> None:
        """A GPU that is lost stays: its taint says so."""
        found = await asyncio.to_thread(discover, self._nvml, self._options)
        there = {each.gpu.uuid for each in found.gpus}
        lost = [each for each in self._found.gpus if each.gpu.uuid in self._monitor.lost - there]
        gpus = sorted([*found.gpus, *lost], key=lambda each: each.gpu.minor)
        self._found = replace(found, gpus=gpus)

    async def _rediscover(self) -> None:
        """GPUs come late, and partitions are made by administrators."""
        while True:
            await asyncio.sleep(_DISCOVERY)
            before = self._found
            try:
                await self._discover()
            except DriverError as error:
                self._log.warning("discovery", "GPUs cannot be looked for: %s", error)
                continue
            for each in self._found.left_out:
                if each not in before.left_out:
                    _logger.warning("left out: %s", each)
            if self._found != before:
                if self._options.health_check:
                    await asyncio.to_thread(self._monitor.watch, self._found.gpus)
                self.context.publish()

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(_SUPERVISION)
            async with self._changing:
                try:
                    await finished(asyncio.to_thread(self._recovery.supervise))
                except (DriverError, OSError) as error:
                    self._log.warning("supervision", "MPS daemons cannot be looked after: %s", error)


async def _minor_version(client: ApiClient) -> int:
    """Of the API server; the newest where it does not say."""
    try:
        stated = str((await client.request("GET", "/version")).get("minor", ""))
    except ClientError:
        return sys.maxsize
    digits = re.match(r"\d+", stated)
    return int(digits[0]) if digits else sys.maxsize
