"""Opaque configuration for the drivers that come with dray, checked before a claim is prepared.

The drivers' own types decode it, so that a manifest is judged as the driver will judge it. Configuration for other
drivers is left alone, and so are kinds that the published driver takes and dray's does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api.objects import mapping
from dray.driver.configs import Config, decode, type_of
from dray.driver.errors import InvalidConfig
from dray.drivers.cpu.assignment import CpuParameters
from dray.drivers.devices import compute_domain, gpu_configs, names
from dray.drivers.nic.config import NetworkConfig

TYPES: Final[dict[str, Sequence[type[Config]]]] = {
    names.GPU: gpu_configs.CONFIGS,
    names.COMPUTE_DOMAIN: compute_domain.CONFIGS,
    names.CPU: (CpuParameters,),
    names.NIC: (NetworkConfig,),
    names.TPU: (),
}
"""The configuration types that each driver accepts, by driver name."""
_KINDS_OF_CLASSES: Final[dict[str, type[Config]]] = {
    "gpu.nvidia.com": gpu_configs.GpuConfig,
    "mig.nvidia.com": gpu_configs.MigDeviceConfig,
}
"""The configuration type of the devices of a class that a driver installs, where the driver has several types."""
# As msgspec ends its messages: ` - at `$.sharing.strategy``.
_PLACE: Final = re.compile(r" - at `\$\.?(.*)`$")


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """`member` is the path below the parameters, empty for all of them."""

    member: str
    message: str


def fits_class(driver: str, parameters: Any, class_name: str) -> bool:
    """Returns False if the driver refuses parameters of this kind for devices of the class."""
    expected = _KINDS_OF_CLASSES.get(class_name)
    if expected is None or not isinstance(parameters, dict):
        return True
    types = TYPES.get(driver, ())
    return expected not in types or type_of(parameters, types) in (None, expected)


def problem_of(driver: str, parameters: Any) -> ConfigProblem | None:
    """Returns why the driver would refuse the parameters; None if it takes them, or is none of dray's."""
    types = TYPES.get(driver)
    if types is None or not isinstance(parameters, dict):
        return None
    chosen = type_of(parameters, types)
    if chosen is not None and chosen.refusal:
        return None
    try:
        decode(mapping(parameters), types)
    except InvalidConfig as error:
        message = str(error)
        found = _PLACE.search(message)
        return ConfigProblem(found[1] if found else "", message[: found.start()] if found else message)
    return None
