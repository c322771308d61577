"""DeviceClasses as the drivers' own installations make them, by the drivers whose devices they select."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.objects import Object
from dray.drivers.devices.names import COMPUTE_DOMAIN, CPU, GPU, NIC, TPU

_DOMAIN_ATTRIBUTES: Final = f"device.attributes['{COMPUTE_DOMAIN}']"
_DOMAIN: Final = f"device.driver == '{COMPUTE_DOMAIN}' && {_DOMAIN_ATTRIBUTES}"
_NIC: Final = f'device.driver == "{NIC}"'
# A NIC that does not say is not taken, instead of failing whoever looks for one.
_RDMA: Final = f'device.attributes["{NIC}"].?rdma.orValue(false)'
_VENDOR: Final = f'device.attributes["{NIC}"].?pciVendor.orValue("")'
# Chips say it only where there are slices beside them.
_TPU_TYPE: Final = f'device.attributes["{TPU}"].?type'

CLASSES: Final[dict[str, dict[str, str]]] = {
    GPU: {
        "gpu.nvidia.com": f"device.driver == '{GPU}' && device.attributes['{GPU}'].type == 'gpu'",
        "mig.nvidia.com": f"device.driver == '{GPU}' && device.attributes['{GPU}'].type == 'mig'",
    },
    COMPUTE_DOMAIN: {
        "compute-domain-daemon.nvidia.com": f"{_DOMAIN}.type == 'daemon'",
        "compute-domain-default-channel.nvidia.com": f"{_DOMAIN}.type == 'channel' && {_DOMAIN_ATTRIBUTES}.id == 0",
    },
    NIC: {
        "dra.net": _NIC,
        "mrdma.google.com": f"{_NIC} && {_RDMA}",
        "netdev.google.com": f"{_NIC} && !{_RDMA}",
        "efa.networking.k8s.aws": f'{_NIC} && {_RDMA} && {_VENDOR}.startsWith("Amazon")',
    },
    TPU: {
        "tpu.google.com": f'device.driver == "{TPU}" && {_TPU_TYPE}.orValue("chip") == "chip"',
        "slice.tpu.google.com": f'device.driver == "{TPU}" && {_TPU_TYPE}.orValue("chip") == "slice"',
    },
    CPU: {"dra.cpu": f'device.driver == "{CPU}"'},
}
_EXTENDED: Final = {"gpu.nvidia.com": "nvidia.com/gpu"}


def device_classes(drivers: Iterable[str]) -> list[Object]:
    return [_class(name, text) for driver in sorted(set(drivers)) for name, text in CLASSES.get(driver, {}).items()]


def _class(name: str, expression: str) -> Object:
    spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
    if name in _EXTENDED:
        spec["extendedResourceName"] = _EXTENDED[name]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
