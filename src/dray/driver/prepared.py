"""What `prepare` answers: the prepared devices, with what a container gets of them and what is told about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dray.api.objects import Object
from dray.driver.cdi.edits import NO_EDITS, ContainerEdits
from dray.driver.claims import AllocatedDevice
from dray.driver.devices import Attribute


@dataclass(frozen=True, slots=True)
class NetworkData:
    interface_name: str = ""
    ips: Sequence[str] = ()
    hardware_address: str = ""

    def document(self) -> Object:
        made = {"interfaceName": self.interface_name, "ips": list(self.ips), "hardwareAddress": self.hardware_address}
        return {name: value for name, value in made.items() if value}


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """The device's entry in the claim's `status.devices`: conditions, data of the driver, network data."""

    conditions: Sequence[Object] = ()
    data: Mapping[str, Any] | None = None
    network: NetworkData | None = None

    def document(self) -> Object:
        made: Object = {}
        if self.conditions:
            made["conditions"] = list(self.conditions)
        if self.data is not None:
            made["data"] = dict(self.data)
        if self.network is not None:
            made["networkData"] = self.network.document()
        return made


@dataclass(frozen=True, slots=True)
class DeviceMetadata:
    """Content of the device metadata file that containers can read."""

    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    network: NetworkData | None = None


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """An allocated device that containers may use now.

    `edits` are written into a CDI file for this claim; `cdi_ids` name CDI devices that exist elsewhere. Both may be
    empty: then containers get nothing injected. `annotations` are those of the CDI device.
    """

    device: AllocatedDevice
    edits: ContainerEdits | None = None
    cdi_ids: Sequence[str] = ()
    status: DeviceStatus | None = None
    metadata: DeviceMetadata | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The answer to a claim. `state` is anything JSON can hold; `unprepare` gets it back.

    A container gets `edits` once if it uses any of the devices that have edits of their own: mounts and hooks that all
    devices of the claim need.
    """

    devices: Sequence[PreparedDevice]
    state: Any = None
    edits: ContainerEdits = NO_EDITS
