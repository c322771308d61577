"""The pool of `gpu.nvidia.com` on a machine: what is offered whole, and what is cut on demand with its counters."""

from __future__ import annotations

from collections.abc import Sequence

from dray.driver.devices import Device, Pool
from dray.drivers.devices import mig
from dray.drivers.devices.gpu import Gpu


def gpu_pool(name: str, uncut: Sequence[Device], cut: Sequence[Gpu] = ()) -> Pool:
    """`uncut` are devices without counters; each GPU of `cut` has a slice for itself and its partitions."""
    return Pool(name, uncut, counters=dict(map(mig.counter_set, cut)), slices=[mig.partitioned(each) for each in cut])
