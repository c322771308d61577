"""DeviceClasses as the drivers' own installations make them, by the drivers whose devices they select."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.objects import Object
from dray.drivers.devices import compute_domain, gpu, nic, tpu

_CPU: Final = "dra.cpu"
_NIC: Final = f'device.driver == "{nic.DRIVER}"'
# A NIC that does not say is not taken, instead of failing whoever looks for one.
_RDMA: Final = f'device.attributes["{nic.DRIVER}"].?rdma.orValue(false)'
_VENDOR: Final = f'device.attributes["{nic.DRIVER}"].?pciVendor.orValue("")'

_CLASSES: Final[dict[str, dict[str, str]]] = {
    gpu.DRIVER: {
        "gpu.nvidia.com": f"device.driver == '{gpu.DRIVER}' && device.attributes['{gpu.DRIVER}'].type == 'gpu'",
        "mig.nvidia.com": f"device.driver == '{gpu.DRIVER}' && device.attributes['{gpu.DRIVER}'].type == 'mig'",
    },
    compute_domain.DRIVER: compute_domain.CLASSES,
    nic.DRIVER: {
        "dra.net": _NIC,
        "mrdma.google.com": f"{_NIC} && {_RDMA}",
        "netdev.google.com": f"{_NIC} && !{_RDMA}",
        "efa.networking.k8s.aws": f'{_NIC} && {_RDMA} && {_VENDOR}.startsWith("Amazon")',
    },
    tpu.DRIVER: {"tpu.google.com": f'device.driver == "{tpu.DRIVER}"'},
    _CPU: {"dra.cpu": f'device.driver == "{_CPU}"'},
}
_EXTENDED: Final = {"gpu.nvidia.com": "nvidia.com/gpu"}


def device_classes(drivers: Iterable[str]) -> list[Object]:
    return [_class(name, text) for driver in sorted(set(drivers)) for name, text in _CLASSES.get(driver, {}).items()]


def _class(name: str, expression: str) -> Object:
    spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
    if name in _EXTENDED:
        spec["extendedResourceName"] = _EXTENDED[name]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
