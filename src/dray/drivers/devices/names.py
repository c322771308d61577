"""Names of the published drivers, by themselves: whoever wants a name alone loads no driver."""

from __future__ import annotations

from typing import Final

COMPUTE_DOMAIN: Final = "compute-domain.nvidia.com"
CPU: Final = "dra.cpu"
GPU: Final = "gpu.nvidia.com"
NIC: Final = "dra.net"
TPU: Final = "tpu.google.com"

OF_DRAY: Final = {
    "cpu": CPU,
    "gpu": GPU,
    "nic": NIC,
    "tpu": TPU,
    "simulated-gpu": GPU,
    "simulated-nic": NIC,
    "simulated-tpu": TPU,
}
"""Driver names by the name that `dray driver` takes."""
