"""The SDK for drivers: a driver declares devices and prepares claims; the SDK speaks to the API server and the kubelet.

`Driver` is the interface, `DriverRunner` runs one beside a kubelet. The types around them are what a driver declares
(`Device`, `Pool`), gets (`Claim`, `Config`) and answers (`Prepared`, `ContainerEdits`, `DeviceHealth`).
"""

from dray.driver.cdi import ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, NetDevice, variables
from dray.driver.claims import AllocatedDevice, Claim, ClaimReference, PreparedClaim, RecordedClaims
from dray.driver.configs import Config
from dray.driver.devices import Capacity, Device, NodeSelection, Pool, Taint, Version
from dray.driver.driver import DeviceUtilization, Driver, DriverContext
from dray.driver.errors import ClaimFailed, DriverError
from dray.driver.health import DeviceHealth, Health
from dray.driver.options import RunnerOptions
from dray.driver.prepared import DeviceMetadata, DeviceStatus, NetworkData, Prepared, PreparedDevice

__all__ = [
    "AllocatedDevice",
    "Capacity",
    "Claim",
    "ClaimFailed",
    "ClaimReference",
    "Config",
    "ContainerEdits",
    "Device",
    "DeviceHealth",
    "DeviceMetadata",
    "DeviceNode",
    "DeviceStatus",
    "DeviceUtilization",
    "Driver",
    "DriverContext",
    "DriverError",
    "Health",
    "Hook",
    "IntelRdt",
    "Mount",
    "NetDevice",
    "NetworkData",
    "NodeSelection",
    "Pool",
    "Prepared",
    "PreparedClaim",
    "PreparedDevice",
    "RecordedClaims",
    "RunnerOptions",
    "Taint",
    "Version",
    "variables",
]
