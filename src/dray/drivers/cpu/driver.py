"""The CPU driver behind the SDK: publishes CPUs, and gives claims exclusive ones.

Which claim holds which CPUs is in the records of the SDK and nowhere else: they are read anew for each claim, under
the lock that also keeps out a second instance in a rolling update, so that a restart loses nothing. A claim that is
prepared again keeps its CPUs. Containers are told their CPUs by an environment variable, and held to them by a task
that sweeps through their cgroups (`shared_pool`). There is nothing to unprepare: with the record of a claim, its CPUs
are free.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from dray.api.objects import text
from dray.api.resource_claims import reserved_for
from dray.client.log_throttling import ThrottledLog
from dray.driver import (
    Claim,
    ClaimFailed,
    Config,
    ContainerEdits,
    Device,
    DeviceHealth,
    DeviceMetadata,
    DeviceStatus,
    Driver,
    DriverError,
    Health,
    Prepared,
    PreparedDevice,
)
from dray.driver.checkpoint import Checkpoint
from dray.drivers.cpu.assignment import AssignmentError, CpuParameters, Machine, assign_cpus
from dray.drivers.cpu.devices import DRIVER, make_devices
from dray.drivers.cpu.options import CpuOptions, CpuOptionsError
from dray.drivers.cpu.shared_pool import HeldCpus, SharedPool
from dray.drivers.cpu.topology import TopologyError, read_online, read_topology
from dray.node.cpusets.cgroups import find_hierarchy
from dray.node.cpusets.lists import Cpuset, format_cpuset, parse_cpuset
from dray.node.cpusets.pinning import VARIABLE

_logger = logging.getLogger(__name__)

# Seconds between two sweeps: so long a new container may run on shared CPUs.
_SWEEP: Final = 1.0
# Seconds between two looks at which CPUs are online.
_HEALTH: Final = 10.0


class CpuState(msgspec.Struct, frozen=True, rename="camel"):
    """The driver's state in a claim's record: the CPUs of each device, and the pods it is for (None: any)."""

    cpusets: tuple[str, ...]
    pods: tuple[str, ...] | None = None

    @property
    def cpus(self) -> Cpuset:
        return frozenset().union(*map(parse_cpuset, self.cpusets))


class CpuDriver(Driver):
    """Publishes CPUs and gives claims exclusive ones."""

    name = DRIVER
    configs: ClassVar[Sequence[type[Config]]] = (CpuParameters,)
    cdi_kind = "dra.k8s.io/cpu"
    Options = CpuOptions

    def __init__(self, options: CpuOptions | None = None) -> None:
        """Raises DriverError for options that the machine does not fit."""
        self._options = options or CpuOptions()
        try:
            self._topology = read_topology(self._options.sysfs)
            self._options.check(self._topology)
        except (CpuOptionsError, TopologyError) as error:
            raise DriverError(str(error)) from error
        least = 1 if self._options.shared_pool == "auto" else 0
        self._machine = Machine(self._topology, make_devices(self._topology, self._options), least)
        self._sweeping: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._log = ThrottledLog(_logger)

    async def start(self) -> None:
        hierarchy = find_hierarchy(Path(self._options.cgroup_root))
        if self._topology.incomplete:
            _logger.warning("CPUs %s have no topology and are left out", format_cpuset(self._topology.incomplete))
        if self._options.shared_pool == "off":
            return
        if not self._options.reserved:
            _logger.warning("no CPUs are reserved: the last ones are not given away, since others must run somewhere")
        if hierarchy is None:
            _logger.warning("no cpusets below %s: containers are not held to CPUs", self._options.cgroup_root)
            return
        self._sweeping = asyncio.create_task(self._sweep(SharedPool(hierarchy, self._topology.online)))

    async def stop(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])

    async def devices(self) -> list[Device]:
        return [device.published for device in self._machine.devices.values()]

    async def prepare(self, claim: Claim) -> Prepared:
        state = self._kept(claim)
        if state is None:
            state = await asyncio.to_thread(self._assign, claim)
            await claim.record(msgspec.to_builtins(state))
        self._changed.set()
        edits = ContainerEdits(env=(f"{VARIABLE}{claim.uid}={format_cpuset(state.cpus)}",)) if state.cpus else None
        prepared = [
            PreparedDevice(
                device,
                edits,
                status=DeviceStatus(data={"cpuset": cpuset}) if cpuset else None,
                metadata=DeviceMetadata({"dra.cpu/allocatedNumCPUs": len(parse_cpuset(cpuset))}),
            )
            for device, cpuset in zip(claim.devices, state.cpusets, strict=True)
        ]
        return Prepared(prepared, msgspec.to_builtins(state))

    async def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """A device is unhealthy while CPUs behind it are offline."""
        last: Cpuset | None = None
        while True:
            online = await asyncio.to_thread(read_online, self._options.sysfs)
            if online != last:
                last = online
                yield [self._health_of(device, cpus - online) for device, cpus in self._cpus_of_devices()]
            await asyncio.sleep(_HEALTH)

    def _health_of(self, device: str, offline: Cpuset) -> DeviceHealth:
        pool = self.context.node_name
        if not offline:
            return DeviceHealth(pool, device, Health.HEALTHY)
        return DeviceHealth(pool, device, Health.UNHEALTHY, f"CPUs {format_cpuset(offline)} are offline")

    def _cpus_of_devices(self) -> Iterator[tuple[str, Cpuset]]:
        return ((name, device.cpus) for name, device in self._machine.devices.items())

    def _kept(self, claim: Claim) -> CpuState | None:
        """Returns the CPUs that the claim got before, if the machine still has them; else None."""
        state = _state_of(claim.previous.state if claim.previous else None)
        usable = state is not None and len(state.cpusets) == len(claim.devices) and state.cpus <= self._topology.online
        return state if usable else None

    def _assign(self, claim: Claim) -> CpuState:
        held = (state.cpus for uid, state in self._states() if uid != claim.uid)
        try:
            assigned = assign_cpus(self._machine, claim.devices, frozenset().union(*held))
        except AssignmentError as error:
            raise ClaimFailed(str(error)) from error
        users = reserved_for(claim.document)
        pods = tuple(text(user.get("uid")) for user in users)
        known = bool(users) and all(user.get("resource") == "pods" for user in users)
        return CpuState(tuple(map(format_cpuset, assigned)), pods if known else None)

    def _states(self) -> Iterator[tuple[str, CpuState]]:
        """Yields the state of every claim with a record, also while it is being prepared.

        Raises CheckpointCorrupt: while it is unknown what a claim holds, nothing is given to others.
        """
        checkpoint = Checkpoint(self.context.directory / "claims", "")
        for uid in checkpoint.uids():
            record = checkpoint.read(uid)
            state = _state_of(record.state) if record is not None else None
            if state is not None:
                yield uid, state

    async def _sweep(self, pool: SharedPool) -> None:
        """Moves containers to their CPUs again and again: once at the start (an earlier process may have left them on
        fewer
        CPUs), then while claims hold CPUs or some CPUs are offline."""
        was_held = True
        while True:
            self._changed.clear()
            problems = []
            try:
                held = await asyncio.to_thread(self._held)
                if held or was_held:
                    done = await asyncio.to_thread(pool.sweep, held)
                    problems, was_held = done.problems, bool(held) or done.is_partial
            except (DriverError, OSError, ValueError) as error:
                problems = [str(error)]
            for problem in problems:
                self._log.warning("sweep", "containers are not held to their CPUs: %s", problem)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SWEEP):
                    await self._changed.wait()

    def _held(self) -> dict[str, HeldCpus]:
        return {
            uid: HeldCpus(state.cpus, None if state.pods is None else frozenset(state.pods))
            for uid, state in self._states()
            if state.cpus
        }


def _state_of(recorded: Any) -> CpuState | None:
    try:
        return msgspec.convert(recorded, CpuState)
    except msgspec.ValidationError:
        return None
