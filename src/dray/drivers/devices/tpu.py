"""TPU chips as `tpu.google.com` publishes them, and what their generation means for a process.

All chips of a machine carry the same uuid, as the published driver has it, and a claim must take all of them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dray.driver.devices import Attribute, Device
from dray.drivers.devices import names

DRIVER: Final = names.TPU

_GENERATIONS: Final = {
    "tpu-v3-device": "v3",
    "tpu-v3-slice": "v3",
    "tpu-v4-podslice": "v4",
    "tpu-v4-lite-device": "v4lite",
    "tpu-v5-lite-device": "v5lite",
    "tpu-v5-lite-podslice": "v5litepod",
    "tpu-v5p-slice": "v5p",
    "tpu-v6e-slice": "v6e",
    "tpu7x": "tpu7x",
}
ACCELERATORS: Final = tuple(_GENERATIONS)
_ACCEL_FILES: Final = frozenset({"v3", "v4", "v4lite"})
# One core a chip; the others have two.
_SINGLE_CORE: Final = frozenset({"v4lite", "v5lite", "v5litepod", "v6e"})
_HOST_BOUNDS: Final = {1: "1,1,1", 2: "1,2,1", 4: "2,2,1", 8: "2,4,1"}


class TpuHost(msgspec.Struct, frozen=True, kw_only=True):
    """The chips of one machine. `topology` is that of the slice the machine belongs to, `2x2` or `2x2x1`."""

    accelerator: str
    topology: str
    chips: int
    uuid: str

    @property
    def generation(self) -> str:
        return _GENERATIONS[self.accelerator]


def devices_of(host: TpuHost) -> list[Device]:
    return [_chip(host, number) for number in range(host.chips)]


def device_file(host: TpuHost, number: int) -> str:
    return f"/dev/accel{number}" if host.generation in _ACCEL_FILES else f"/dev/vfio/{number}"


def environment(host: TpuHost) -> dict[str, str]:
    """What a process that has all the chips is told."""
    cores = host.chips if host.generation in _SINGLE_CORE else 2 * host.chips
    bounds = _HOST_BOUNDS.get(host.chips, f"{host.chips},1,1")
    return {
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_TOPOLOGY": host.topology,
        "TPU_ACCELERATOR_TYPE": f"{host.generation}-{cores}",
        "TPU_CHIPS_PER_HOST_BOUNDS": bounds,
        "CHIPS_PER_HOST_BOUNDS": bounds,
        "TPU_TOPOLOGY_ALT": "false",
        "TPU_WORKER_ID": "0",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "DRA_RESOURCE_DRIVER_NAME": DRIVER,
    }


def _chip(host: TpuHost, number: int) -> Device:
    described: dict[str, Attribute] = {
        "index": number,
        "uuid": host.uuid,
        "tpuGen": host.generation,
        "brand": "Google",
        "accelerator": host.accelerator,
        "chipCount": host.chips,
        "topology": host.topology,
    }
    return Device(device_file(host, number).rpartition("/")[2], described)
