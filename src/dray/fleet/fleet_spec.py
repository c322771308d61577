"""A fleet: which machines there are and how many, how their devices are published, and how time passes on them."""

from __future__ import annotations

from typing import Literal

import msgspec

from dray.api.objects import Object
from dray.drivers.devices.tpu import TpuMode
from dray.fleet.machine_type import Part

GpuMode = Literal["whole", "mig", "shared-memory", "shared-unlimited", "shares"]
CpuMode = Literal["numanode", "socket", "machine", "individual", "none"]


class Machines(Part, frozen=True, kw_only=True):
    """Several machines of one type. Their nodes are called after `name`, with a number. With a `topology` of their own
    as many of them as it needs are the hosts of one slice of TPUs."""

    type: str
    count: int = 1
    name: str = ""
    gpus: GpuMode = "whole"
    shares: int = 0
    cpus: CpuMode = "numanode"
    pcie_roots: bool = False
    tpus: TpuMode = "whole"
    topology: str = ""
    drivers: tuple[str, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Object, ...] = ()


class Fleet(Part, frozen=True, kw_only=True, tag_field="kind", tag="Fleet"):
    """`heartbeat_seconds` is how often each node renews its lease; 0 for nodes that are ready without."""

    api_version: Literal["fleet.dray.dev/v1alpha1"]
    machines: tuple[Machines, ...]
    seed: int = 0
    heartbeat_seconds: float = 0.0
