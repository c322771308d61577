"""The TPU driver behind the SDK: publishes the chips of a machine, and gives claims their device files and variables.

What it does to prepare a claim can be told from the claim and the machine alone, so it keeps no state, and there is
nothing to unprepare. A chip whose device file has gone is unhealthy until the file is back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from dray.driver import (
    AllocatedDevice,
    Claim,
    ClaimFailed,
    ContainerEdits,
    DeviceHealth,
    DeviceNode,
    Driver,
    DriverError,
    Health,
    Mount,
    Pool,
    Prepared,
    PreparedDevice,
    variables,
)
from dray.drivers.devices import tpu_pools
from dray.drivers.devices.tpu import DRIVER, TpuChip, TpuHost, chips_of
from dray.drivers.devices.tpu_generations import ACCELERATORS
from dray.drivers.devices.tpu_topology import block_topology, dimensions, host_bounds
from dray.drivers.tpu.claims import claimed_chips, told
from dray.drivers.tpu.description import describe
from dray.drivers.tpu.hardware import FoundChip, Hardware, find_chips
from dray.drivers.tpu.options import TpuOptions
from dray.drivers.tpu.slices import worker_environment

_HEALTH: Final = 10.0
_VBAR_PORT: Final = 8353
_logger = logging.getLogger(__name__)


class TpuDriver(Driver):
    """Publishes TPU chips and prepares them for claims."""

    name = DRIVER
    cdi_kind = "k8s.tpu.google.com/tpu"
    Options = TpuOptions

    def __init__(self, options: TpuOptions | None = None) -> None:
        """Raises DriverError where there are no chips."""
        self._options = options or TpuOptions()
        self._hardware = find_chips(self._options.sysfs, self._options.dev)
        if not self._hardware.chips:
            raise DriverError(f"no TPU on this machine: {self._hardware.problem}")
        self._host: TpuHost | None = None
        self._runs = False

    async def start(self) -> None:
        self._runs = True

    async def host(self) -> TpuHost:
        if self._host is None:
            self._host = await self._find_host()
        return self._host

    async def _find_host(self) -> TpuHost:
        """Raises DriverError where the sources and the chips contradict each other."""
        node = self.context.node_name
        said = await describe(self._options, self.context.client, node, inspected=not self._runs)
        accelerator = said.accelerator or next(iter(self._hardware.accelerators), "")
        if accelerator not in ACCELERATORS:
            raise DriverError(
                f"accelerator {accelerator!r} ({said.source or 'PCI'}) is none of {', '.join(ACCELERATORS)}; "
                "set accelerator"
            )
        found = len(self._hardware.chips)
        if said.count and said.count != found:
            raise DriverError(f"{said.source}: the machine has {said.count} chips, and {found} have device files")
        topology = said.topology or self._own_topology(found)
        host = TpuHost(
            node=node,
            accelerator=accelerator,
            topology=topology,
            chips=tuple(map(_chip, self._hardware.chips)),
            uuids=self._options.uuids,
            ici_resiliency=said.ici_resiliency,
        )
        self._check(host)
        if self._hardware.accelerators and accelerator not in self._hardware.accelerators:
            _logger.warning(
                "accelerator %s (%s): by PCI the chips are %s", accelerator, said.source, self._hardware.accelerators[0]
            )
        return host

    def _own_topology(self, chips: int) -> str:
        """Returns the topology of a machine that is a whole slice, in two dimensions like the published driver."""
        try:
            return block_topology(chips, flat=True)
        except ValueError:
            return ""

    def _check(self, host: TpuHost) -> None:
        try:
            host_bounds(len(host.chips))
            if host.topology:
                dimensions(host.topology)
        except ValueError as error:
            raise DriverError(f"{error} (found {', '.join(chip.name for chip in host.chips)})") from None
        if self._options.mode == "partitions" and not host.is_single:
            raise DriverError(
                f"mode=partitions: the machine is part of a slice {host.topology}, whose chips work together alone; "
                "use mode=whole or mode=slice"
            )

    async def pools(self) -> Sequence[Pool]:
        return tpu_pools.pools_of(await self.host(), self._options.mode)

    def device_files(self) -> Sequence[str]:
        return [str(chip.file) for chip in self._hardware.chips]

    async def prepare(self, claim: Claim) -> Prepared:
        host = await self.host()
        chips = claimed_chips(host, self._options.mode, claim.devices)
        environment = told(host, chips, claim.uid)
        address = self._options.node_ip or os.environ.get("NODE_IP", "")
        if address:
            environment["VBAR_CONTROL_SERVICE_URL"] = f"{address}:{_VBAR_PORT}"
        if not host.is_single:
            label, named = self._options.slice_label, self._options.workers == "hosts"
            environment |= await worker_environment(self.context.client, host.node, claim.devices, label, named=named)
        mounts = self._mounts()
        return Prepared(
            [
                PreparedDevice(each, ContainerEdits(variables(environment), self._nodes(each, numbers), mounts=mounts))
                for each, numbers in chips.items()
            ]
        )

    def _nodes(self, device: AllocatedDevice, numbers: list[int]) -> tuple[DeviceNode, ...]:
        files = [self._hardware.chips[number].file for number in numbers]
        if self._hardware.uses_vfio:
            files.append(files[0].parent / "vfio")
        missing = [str(file) for file in files if not file.exists()]
        if missing:
            raise ClaimFailed(f"device {device.device}: {', '.join(missing)} is not there; is the chip still present?")
        return tuple(DeviceNode(self._inside(file), str(file), permissions="mrw") for file in files)

    def _inside(self, file: Path) -> str:
        return str(Path("/dev") / file.relative_to(self._options.dev))

    def _mounts(self) -> tuple[Mount, ...]:
        if not self._options.log_directory:
            return ()
        directory = os.path.abspath(self._options.log_directory)
        Path(directory).mkdir(parents=True, exist_ok=True)
        found = os.lstat(directory)
        # By default it is in /tmp, where anybody could have made it, or a link to something else, first.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise ClaimFailed(f"{directory} is a link, or of another user: remove it, or set logDirectory")
        return (Mount(directory, "/tmp/tpu_logs", ("rw", "nosuid", "nodev", "bind")),)

    async def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        last: list[bool] | None = None
        while True:
            present = await asyncio.to_thread(_present, self._hardware)
            if present != last:
                last = present
                yield await self._report(present)
            await asyncio.sleep(_HEALTH)

    async def _report(self, present: list[bool]) -> list[DeviceHealth]:
        host = await self.host()
        reports = []
        for pool in tpu_pools.pools_of(host, self._options.mode):
            for device in pool.all_devices():
                gone = [host.chips[chip].name for chip in chips_of(host, device.name) if not present[chip]]
                health = Health.UNHEALTHY if gone else Health.HEALTHY
                message = f"device file of {', '.join(gone)} is not there" if gone else ""
                reports.append(DeviceHealth(pool.name, device.name, health, message))
        return reports


def _chip(found: FoundChip) -> TpuChip:
    place = found.function
    if place is None:
        return TpuChip(name=found.name)
    return TpuChip(name=found.name, pci_bus_id=place.address, pcie_root=place.root, numa_node=place.numa_node)


def _present(hardware: Hardware) -> list[bool]:
    return [chip.file.exists() for chip in hardware.chips]
