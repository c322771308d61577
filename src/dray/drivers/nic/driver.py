"""The NIC driver behind the SDK: publishes interfaces, and plans what the hook of a claim does with them.

Prepare checks what the claim wants and writes an attachment; the runtime runs the hook when the pod has a network, and
the hook moves the interface. Unprepare brings it back. A task looks at what the kernel tells of interfaces: it has
devices published anew, and writes into the status of a claim where its interfaces are.

Devices of claims stay published with the attributes they had on the host: they are gone from there, not from the
machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from dray.api.catalogue import built_in
from dray.api.objects import mappings, status_of
from dray.api.resource_claims import reserved_for
from dray.client.errors import ClientError
from dray.driver import (
    AllocatedDevice,
    Claim,
    ClaimFailed,
    Config,
    ContainerEdits,
    Device,
    DeviceNode,
    Driver,
    DriverError,
    Hook,
    Prepared,
    PreparedClaim,
    PreparedDevice,
)
from dray.driver.cdi.sandbox import SANDBOX_HOOKS
from dray.drivers.devices.nic import DRIVER, device_of
from dray.drivers.nic import guard, hook, rdma, statuses
from dray.drivers.nic.attachment import Attachment, AttachmentError, Attachments
from dray.drivers.nic.changes import Changes
from dray.drivers.nic.cloud import Attributes, cloud_attributes
from dray.drivers.nic.config import NetworkConfig
from dray.drivers.nic.discovery import Found, discover, read_interfaces
from dray.drivers.nic.links import NetlinkFailed
from dray.drivers.nic.options import NicOptions
from dray.drivers.nic.planning import planned
from dray.drivers.nic.recovery import is_running, recover, release
from dray.drivers.nic.wanted import check_names, check_users
from dray.node.network_namespaces import number

_logger = logging.getLogger(__name__)
_NODES: Final = built_in("v1", "Node")
# Seconds that changes are gathered, between looks at whether hooks have done their work, and until one is given up.
_PAUSE: Final = 0.3
_LOOK: Final = 1.0
_HOOK_SECONDS: Final = 30


class NicDriver(Driver):
    """Network interfaces and RDMA devices."""

    name = DRIVER
    configs: ClassVar[Sequence[type[Config]]] = (NetworkConfig,)
    Options = NicOptions

    def __init__(self, options: NicOptions | None = None) -> None:
        self._options = options or NicOptions()
        self._attachments = Attachments(self._options.state)
        self._node_addresses: list[str] = []
        self._cloud: Attributes | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._guard: subprocess.Popen[bytes] | None = None
        self._found: list[Found] = []
        self._statuses = statuses.ClaimStatuses(lambda claim, given: self.context.apply_device_status(claim, given))

    async def start(self) -> None:
        if not sys.platform.startswith("linux"):
            raise DriverError("interfaces can be moved into pods on Linux alone")
        if os.geteuid() != 0:
            raise DriverError("interfaces are moved by root alone: run the driver as root, in the network of the host")
        await asyncio.to_thread(recover, self._attachments, self.context.directory)
        self._guard = guard.start(self._options.state, self.context.directory)
        await self._ask_node()
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._ask_cloud())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._guard is not None:
            guard.leave(self._guard, needed=bool(await asyncio.to_thread(self._own)))

    # Devices

    async def devices(self) -> list[Device]:
        if self._cloud is None and not self._tasks:
            # It is looked at and does not run.
            await self._ask_cloud()
        try:
            self._found = await asyncio.to_thread(self._discover)
        except (NetlinkFailed, OSError) as error:
            raise DriverError(f"the kernel does not tell of interfaces: {error}") from error
        nics = {found.nic.name: found.nic for found in self._found if not found.obstacle}
        away = (
            attachment for attachment in await asyncio.to_thread(self._attachments.all) if attachment.phase != "planned"
        )
        nics |= {attachment.device: attachment.nic for attachment in away if attachment.owner == self._owner}
        return [device_of(nics[name]) for name in sorted(nics)]

    async def left_out(self) -> list[str]:
        lines = [f"{found.label}: {found.obstacle}" for found in self._found if found.obstacle]
        away = [
            attachment for attachment in await asyncio.to_thread(self._attachments.all) if attachment.phase != "planned"
        ]
        return lines + [
            f"{attachment.nic.interface or attachment.device}: it is in the pod of claim {attachment.reference}"
            for attachment in away
            if attachment.owner != self._owner
        ]

    @property
    def _owner(self) -> str:
        return str(self.context.directory)

    def _discover(self) -> list[Found]:
        found = discover(read_interfaces(), self._options, self._node_addresses)
        if self._cloud is None:
            return found
        further = self._cloud
        return [
            Found(
                msgspec.structs.replace(interface.nic, further=further(interface.nic)),
                interface.link,
                interface.addresses,
                interface.obstacle,
            )
            for interface in found
        ]

    async def _ask_node(self) -> None:
        """Reads the node's addresses from the API server; keeps those of the options if that fails."""
        try:
            async with asyncio.timeout(5):
                node = await self.context.client.get(_NODES, self.context.node_name)
        except (ClientError, TimeoutError) as error:
            _logger.warning("the addresses of node %s are not known: %s", self.context.node_name, error)
            return
        addresses = mappings(status_of(node).get("addresses"))
        self._node_addresses = [
            str(address["address"]) for address in addresses if address.get("type") in ("InternalIP", "ExternalIP")
        ]

    async def _ask_cloud(self) -> None:
        self._cloud = await cloud_attributes(self._options.cloud_provider, self._options.metadata_server)
        if self._tasks and self._options.cloud_provider != "none":
            self.context.publish()

    # Claims

    async def prepare(self, claim: Claim) -> Prepared:
        check_users(reserved_for(claim.document))
        check_names(claim.devices)
        try:
            found = {each.nic.name: each for each in await asyncio.to_thread(self._discover)}
        except (NetlinkFailed, OSError) as error:
            raise ClaimFailed(f"the kernel does not tell of interfaces: {error}") from error
        made = [await self._prepare_device(claim, device, found) for device in claim.devices]
        self._statuses.forget(claim.uid)
        return Prepared(made)

    async def _prepare_device(
        self, claim: Claim, device: AllocatedDevice, found: Mapping[str, Found]
    ) -> PreparedDevice:
        if device.admin_access:
            # To look at; it stays where it is.
            return PreparedDevice(device)
        try:
            attachment = await asyncio.to_thread(self._plan, claim, device, found)
        except (AttachmentError, NetlinkFailed, OSError) as error:
            raise ClaimFailed(f"device {device.device}: {error}") from error
        nodes = self._device_nodes(attachment)
        if not (attachment.nic.interface or attachment.moves_rdma):
            return PreparedDevice(device, ContainerEdits(device_nodes=nodes), status=statuses.status_of(attachment))
        edits = ContainerEdits(device_nodes=nodes, hooks=(self._hook(attachment),))
        return PreparedDevice(device, edits, annotations={SANDBOX_HOOKS: "true"})

    def _device_nodes(self, attachment: Attachment) -> tuple[DeviceNode, ...]:
        name, options = attachment.nic.rdma_device, self._options
        if not name:
            return ()
        nodes = rdma.device_nodes(options.sysfs, options.devices, name)
        # All have rdma_cm; what programs need is uverbsN.
        if not any("uverbs" in node.path for node in nodes):
            missing = f"{options.devices}/infiniband has no uverbs file of RDMA device {name}"
            raise ClaimFailed(f"device {attachment.device}: {missing}: is the kernel module ib_uverbs loaded?")
        return nodes

    def _plan(self, claim: Claim, device: AllocatedDevice, found: Mapping[str, Found]) -> Attachment:
        """An attachment for this claim. One that a hook has begun with, or begins with meanwhile, stays."""
        with self._attachments.locked(device.device):
            current = self._attachments.read(device.device)
        if current is not None and current.claim_uid != claim.uid:
            # The SDK has seen to it that no claim of this driver has the device.
            if current.owner != self._owner and (current.phase != "planned" or is_running(Path(current.owner))):
                raise AttachmentError(
                    f"it is in the pod of claim {current.reference}, by the driver in {current.owner}"
                )
            release(self._attachments, device.device, current.claim_uid)
            found = {each.nic.name: each for each in self._discover()}
        if current is not None and current.is_begun_for(claim.uid):
            return current
        attachment = planned(
            claim, device, found.get(device.device), self._options, owner=self._owner, host_network=number()
        )
        with self._attachments.locked(device.device):
            current = self._attachments.read(device.device)
            if current is not None and current.is_begun_for(claim.uid):
                return current
            return self._attachments.write(attachment)

    def _hook(self, attachment: Attachment) -> Hook:
        path = self._options.hook_path or sys.executable
        arguments = hook.arguments(self._options.state, attachment.device, attachment.claim_uid)
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        environment = tuple(f"{name}={value}" for name, value in kept.items())
        return Hook("createRuntime", path, (path, *arguments), environment, _HOOK_SECONDS)

    async def unprepare(self, claim: PreparedClaim) -> None:
        self._statuses.forget(claim.reference.uid)
        for device in claim.devices:
            try:
                await asyncio.to_thread(release, self._attachments, device.device, claim.reference.uid)
            except (AttachmentError, NetlinkFailed, OSError) as error:
                raise ClaimFailed(f"device {device.device}: {error}") from error
        self.context.publish()

    # While it runs

    async def _watch(self) -> None:
        changes = Changes()
        waited = 0.0
        try:
            while True:
                seconds = _LOOK if await asyncio.to_thread(self._is_expecting) else self._options.rescan_seconds
                changed = await changes.next(seconds)
                waited = 0.0 if changed else waited + seconds
                if changed:
                    await asyncio.sleep(_PAUSE)
                if changed or waited >= self._options.rescan_seconds:
                    waited = 0.0
                    self.context.publish()
                try:
                    await self._statuses.tell(await asyncio.to_thread(self._own))
                except (DriverError, OSError) as error:
                    _logger.warning("statuses of claims are not written: %s", error)
        finally:
            changes.close()

    def _own(self) -> list[Attachment]:
        return [attachment for attachment in self._attachments.all() if attachment.owner == self._owner]

    def _is_expecting(self) -> bool:
        """Whether a hook may do something that no interface tells of."""
        return any(attachment.phase != "attached" for attachment in self._own())
