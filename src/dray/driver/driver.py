"""The interface of a driver: what devices there are, prepare, unprepare, health. `DriverRunner` does the rest.

    class Lamps(Driver):
        name = "lamps.example.com"

        async def devices(self) -> list[Device]:
            return [Device("lamp-0", attributes={"color": "red"})]

        async def prepare(self, claim: Claim) -> Prepared:
            edits = ContainerEdits(env=("LAMP=on",))
            return Prepared([PreparedDevice(each, edits) for each in claim.devices])

All methods run in one event loop: what blocks belongs into `asyncio.to_thread`. While one of them blocks the loop,
the kubelet gets no answer, and takes the driver for dead after a second.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

from dray.client.api import ApiClient
from dray.driver.claims import AllocatedDevice, Claim, ClaimReference, PreparedClaim, RecordedClaims
from dray.driver.configs import Config
from dray.driver.devices import Device, Pool
from dray.driver.errors import DriverError
from dray.driver.health import DeviceHealth
from dray.driver.prepared import DeviceMetadata, DeviceStatus, Prepared

T = TypeVar("T")
ApplyDeviceStatus = Callable[[ClaimReference, Mapping[AllocatedDevice, DeviceStatus]], Awaitable[None]]
UpdateMetadata = Callable[[ClaimReference, Mapping[AllocatedDevice, DeviceMetadata]], None]


def _not_running(*_: Any) -> NoReturn:
    raise DriverError("the driver is looked at and does not run: it has no claims")


@dataclass(frozen=True, slots=True)
class DriverContext:
    """The environment of a running driver. Call `publish` when devices change: it asks for the pools again.

    `directory` is the driver's own, `<kubelet root>/plugins/<driver name>`; it survives restarts of the driver.
    `apply_device_status` replaces what the driver says in the claim's `status.devices`; before a pod is bound it sets
    the binding conditions of devices. `update_metadata` changes metadata files of a prepared claim; containers that run
    already keep what they have. `recorded_claims` reads the records of all claims from disk, including those being
    prepared or unprepared.
    """

    node_name: str
    directory: Path
    client: ApiClient
    publish: Callable[[], None]
    apply_device_status: ApplyDeviceStatus = _not_running
    update_metadata: UpdateMetadata = _not_running
    recorded_claims: Callable[[], RecordedClaims] = RecordedClaims


@dataclass(frozen=True, slots=True)
class DeviceUtilization:
    """How busy a device is now, from 0 to 1, and how much of its memory is in use, in bytes. None: not known."""

    pool: str
    device: str
    ratio: float | None = None
    memory_used: int | None = None


async def awaited(result: Awaitable[T], method: str) -> T:
    """Returns the result of a driver's method; raises DriverError if the method is not `async`."""
    if not isawaitable(result):
        raise DriverError(f"{method} returned {type(result).__name__}: write it with `async def`")
    return await result


class Driver:
    """Base class of drivers. `name`, `devices` (or `pools`) and `prepare` are needed, the rest is optional."""

    name: ClassVar[str]
    """A DNS subdomain of at most 63 characters; `spec.driver` of the slices."""
    configs: ClassVar[Sequence[type[Config]]] = ()
    """The types of opaque configuration it takes."""
    serialize: ClassVar[bool] = True
    """Whether claims are prepared and unprepared one at a time. Without, those of one claim still are."""
    cdi_kind: ClassVar[str] = ""
    """`vendor/class` of the CDI devices of claims; `k8s.<name>/claim` unless it is given."""
    of_node: ClassVar[bool] = True
    """Whether its devices are those of a node. One that publishes for a whole cluster is told no node."""
    unhealthy_effect: ClassVar[str] = "NoSchedule"
    """The effect of the taint `<name>/unhealthy`; empty for no taint, `NoExecute` to evict who uses the device."""

    context: DriverContext

    async def start(self) -> None:
        """Called once, before anything else, when `context` is set. Raising ends the driver."""

    async def stop(self) -> None:
        """Called last. Devices stay prepared: the pods that use them live on."""

    async def pools(self) -> Sequence[Pool]:
        """Returns every pool, complete; previously published slices that are missing here are deleted.

        The default is one pool with `devices`, named after the node.
        """
        devices = await awaited(self.devices(), f"{type(self).__name__}.devices")
        return [Pool(self.context.node_name, devices=devices)]

    async def devices(self) -> Sequence[Device]:
        """Returns every device of this node, in the order in which they are published. Called at the start and after
        `context.publish`; an exception is logged and the call is retried later."""
        raise NotImplementedError(f"{type(self).__name__} has neither `devices` nor `pools`")

    async def left_out(self) -> Sequence[str]:
        """Returns why devices of the machine are not published, one line each. Called after `pools`."""
        return ()

    def device_files(self) -> Sequence[str]:
        """Returns patterns of the device files that pods get by claim, such as `/dev/lamp*`. A node that runs pods as
        processes hides these files from pods without a claim for them."""
        return ()

    async def prepare(self, claim: Claim) -> Prepared:
        """Makes the claim's devices ready for containers; returns one `PreparedDevice` for each it serves.

        It is called again for a prepared claim, after a restart of the kubelet or of the machine, and must then make
        sure that everything is there, and answer the same: `claim.previous` has the earlier state. All configuration
        has been decoded and validated before. Raising fails this claim alone, and the kubelet tries again in a
        minute; what was done until then is undone by the next `prepare` or `unprepare`. It is cancelled when the
        kubelet stops waiting (45 seconds) or unprepares the claim.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `prepare`")

    async def unprepare(self, claim: PreparedClaim) -> None:
        """Undoes a prepare, complete or not, from its record. It is not called for claims without a record.

        It may be called again if it failed or its outcome was lost. Raising keeps the pod from ending, and the
        kubelet tries again.
        """

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        """Reports of the health of devices, each complete; usually an `async def` generator that yields when something
        changed. None, unless overridden: the health is not known. When it ends or raises, it is called again."""
        return None

    async def utilization(self) -> Sequence[DeviceUtilization]:
        """Samples the devices, those that are free too. Called every few seconds, if overridden; the SDK shows what it
        returns as metrics and in the status of prepared claims. A device that does not tell is left out."""
        return ()
