"""The settings of the TPU drivers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from dray.drivers.devices.tpu import TpuMode


class TpuOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of the TPU driver. Empty values are detected: tpu-env, metadata server, node labels, PCI."""

    mode: TpuMode = "whole"
    """`whole`: a claim takes all chips; `partitions`: chips and blocks of them too; `slice`: by `tpu-slices`."""
    uuids: Literal["chip", "node"] = "chip"
    """Whether each chip has a uuid of its own, or all of a machine the same, as the published driver has it."""
    accelerator: str = ""
    topology: str = ""
    ici_resiliency: str = ""
    workers: Literal["none", "hosts"] = "none"
    """`hosts`: containers of a slice over several machines are told the machines as TPU_WORKER_HOSTNAMES."""
    slice_label: str = "cloud.google.com/gke-nodepool"
    """The label of a node that names the slice it belongs to."""
    node_ip: str = msgspec.field(default="", name="nodeIP")
    """Address for VBAR_CONTROL_SERVICE_URL; default $NODE_IP."""
    metadata_server: str = "http://metadata.google.internal"
    """Asked on machines of Google Cloud alone; empty for none."""
    log_directory: str = "/tmp/tpu_logs"
    """Mounted into containers, where libtpu writes; empty for no mount."""
    tpu_env_file: str = "/etc/tpu/tpu-env"
    sysfs_root: str = "/sys"
    dev_root: str = "/dev"

    @property
    def sysfs(self) -> Path:
        return Path(self.sysfs_root).absolute()

    @property
    def dev(self) -> Path:
        return Path(self.dev_root).absolute()


class TpuSlicesOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    slice_label: str = "cloud.google.com/gke-nodepool"
    """Nodes with the same value of this label are the hosts of one slice."""
