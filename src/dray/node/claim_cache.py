"""The claim cache: which pods of this node use a claim, and which devices its drivers prepared.

An entry is known by namespace and name; its uid tells a claim from another that took its name. It is written to the
checkpoint with its pods and devices, before a driver is called, so that whatever a driver may have done can be undone
after a restart. Whether it is prepared is not written, because after a restart that is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dray.api.objects import Key, Object, key_of, uid_of
from dray.api.resource_claims import results_of
from dray.driver.claims import ClaimReference
from dray.node.checkpoint import Checkpoint, ClaimState, DriverState
from dray.node.devices import PreparedDevice
from dray.node.metrics import ANY_DRIVER, NodeMetrics

_ALL_OPERATIONS = "*"


@dataclass(slots=True)
class DriverDevices:
    """State of a claim at one driver: the devices that it prepared, and the calls that it does not need.

    `admin_devices` has the devices with admin access, by pool and name: they are not in use by the claim.
    """

    devices: list[PreparedDevice] = field(default_factory=list)
    skipped_operations: tuple[str, ...] = ()
    admin_devices: frozenset[tuple[str, str]] = frozenset()

    def skips(self, operation: str) -> bool:
        return operation in self.skipped_operations or _ALL_OPERATIONS in self.skipped_operations


@dataclass(slots=True)
class ClaimInfo:
    reference: ClaimReference
    drivers: dict[str, DriverDevices]
    pods: set[str] = field(default_factory=set)
    """The uids of the pods that use it on this node."""
    prepared: bool = False
    unpreparing: bool = False

    @property
    def key(self) -> Key:
        return self.reference.namespace, self.reference.name

    @property
    def devices(self) -> Iterator[tuple[str, PreparedDevice]]:
        """Returns the prepared devices, each with the name of its driver."""
        return ((driver, device) for driver, state in self.drivers.items() for device in state.devices)

    def uses(self, driver: str, pool: str, device: str) -> bool:
        """Returns True if the claim uses the device; a device with admin access is not used."""
        state = self.drivers.get(driver)
        return state is not None and (pool, device) not in state.admin_devices


def claim_info(claim: Object) -> ClaimInfo:
    """Makes the entry of an allocated claim; no device is prepared yet."""
    operations: dict[str, list[set[str]]] = {}
    admin: dict[str, set[tuple[str, str]]] = {}
    for result in results_of(claim):
        driver = result["driver"]
        operations.setdefault(driver, []).append(set(result.get("skipNodeOperations") or ()))
        if result.get("adminAccess"):
            admin.setdefault(driver, set()).add((result["pool"], result["device"]))
    # A call is left out only where every device of the driver says so.
    drivers = {
        driver: DriverDevices([], tuple(sorted(set.intersection(*skipped))), frozenset(admin.get(driver, ())))
        for driver, skipped in operations.items()
    }
    namespace, name = key_of(claim)
    return ClaimInfo(ClaimReference(namespace, name, uid_of(claim)), drivers)


class ClaimCache:
    """Entries may be changed in place; `save` writes them to the checkpoint."""

    def __init__(self, checkpoint: Checkpoint, metrics: NodeMetrics | None = None) -> None:
        self._checkpoint = checkpoint
        self._metrics = metrics
        self.reload()

    def reload(self) -> None:
        """Reads the checkpoint again, because an agent that ended later may have changed it."""
        self._claims = {info.key: info for info in map(_restored, self._checkpoint.load())}

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(list(self._claims.values()))

    def __len__(self) -> int:
        return len(self._claims)

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._claims.get((namespace, name))

    def put(self, info: ClaimInfo) -> None:
        self._claims[info.key] = info

    def remove(self, info: ClaimInfo) -> None:
        self._claims.pop(info.key, None)

    def of_pod(self, uid: str) -> list[ClaimInfo]:
        return [info for info in self._claims.values() if uid in info.pods]

    def of_device(self, driver: str, pool: str, device: str) -> list[ClaimInfo]:
        """Returns the claims for which the device is prepared."""
        wanted = (driver, pool, device)
        return [
            info
            for info in self._claims.values()
            if any((owner, each.pool, each.device) == wanted for owner, each in info.devices)
        ]

    def save(self) -> None:
        """Writes the checkpoint; raises CheckpointError."""
        self._checkpoint.save([_state(info) for info in self._claims.values()])
        if self._metrics is not None:
            self._count(self._metrics)

    def _count(self, metrics: NodeMetrics) -> None:
        prepared = [info for info in self._claims.values() if info.prepared]
        metrics.claims.clear()
        metrics.claims.labels(ANY_DRIVER).set(len(prepared))
        for info in prepared:
            for driver in info.drivers:
                metrics.claims.labels(driver).inc()


def _state(info: ClaimInfo) -> ClaimState:
    drivers = {
        name: DriverState(tuple(driver.devices), driver.skipped_operations, driver.admin_devices)
        for name, driver in info.drivers.items()
    }
    return ClaimState(info.reference, frozenset(info.pods), drivers)


def _restored(state: ClaimState) -> ClaimInfo:
    drivers = {
        name: DriverDevices(list(driver.devices), driver.skipped_operations, driver.admin_devices)
        for name, driver in state.drivers.items()
    }
    return ClaimInfo(state.reference, drivers, set(state.pods))
