"""The pool of `gpu.nvidia.com` on a machine: what is offered whole, and what is cut on demand with its counters."""

from __future__ import annotations

from collections.abc import Sequence

from dray.driver.devices import Device, Pool
from dray.drivers.devices import mig
from dray.drivers.devices.gpu import Gpu, Sharing, shared


def gpu_pool(name: str, uncut: Sequence[Device], cut: Sequence[Gpu] = (), sharing: Sharing | None = None) -> Pool:
    """`uncut` are devices without counters; each GPU of `cut` has a slice for itself and its partitions.

    With `sharing` several claims may have each device.
    """
    slices = [_shared(mig.partitioned(gpu), sharing) for gpu in cut]
    return Pool(name, _shared(uncut, sharing), counters=dict(map(mig.counter_set, cut)), slices=slices)


def _shared(devices: Sequence[Device], sharing: Sharing | None) -> Sequence[Device]:
    return devices if sharing is None else [shared(device, sharing) for device in devices]
