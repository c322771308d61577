"""A driver on the SDK whose hardware is a directory: a device in use is a file that holds the uid of its claim.

What the driver was asked, and every device that it found in use by another claim, is in `log` of that directory, so
that it can also run as a process of its own: `python -m tests.driver.gpu_driver ROOT HARDWARE`.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from dray.client.api import ApiClient
from dray.client.http import HttpTransport
from dray.client.kubeconfig import Kubeconfig
from dray.driver import ClaimFailed, ContainerEdits, Device, Driver, Prepared, PreparedDevice, RunnerOptions
from dray.driver.runner import DriverRunner

DRIVER = "gpu.example.com"
COUNT = 4


class GpuDriver(Driver):
    name = DRIVER

    def __init__(self, hardware: Path, *, broken=()):
        self.hardware = hardware
        self.broken = set(broken)
        """Devices that cannot be prepared."""
        self.gate = None
        """An asyncio.Event that prepare waits for when the device is in its hands."""
        self.stubborn = False
        """Whether prepare goes on when it is cancelled."""
        self.previous = []
        hardware.mkdir(exist_ok=True)

    async def devices(self):
        return [Device(f"gpu-{number}", attributes={"index": number}) for number in range(COUNT)]

    async def prepare(self, claim):
        self.note("prepare", claim.reference)
        self.previous.append(claim.previous)
        for each in claim.devices:
            if each.device in self.broken:
                raise ClaimFailed(f"{each.device} is broken")
            if not each.admin_access:
                self.take(each, claim.uid)
        if self.gate is not None:
            await self.wait(asyncio.ensure_future(self.gate.wait()))
        return Prepared(
            [
                PreparedDevice(each, ContainerEdits(env=(f"GPU_{each.device.removeprefix('gpu-')}={claim.uid}",)))
                for each in claim.devices
            ],
            state={"devices": [each.device for each in claim.devices]},
        )

    async def wait(self, gate):
        while not gate.done():
            try:
                await asyncio.shield(gate)
            except asyncio.CancelledError:
                if not self.stubborn:
                    gate.cancel()
                    raise

    async def unprepare(self, claim):
        self.note("unprepare", claim.reference)
        for each in claim.devices:
            path = self.place(each)
            if path.exists() and path.read_text() == claim.reference.uid:
                path.unlink()

    def take(self, device, uid):
        path = self.place(device)
        try:
            with path.open("x") as file:
                file.write(uid)
        except FileExistsError:
            # A process that dies between creating the file and writing it leaves it empty.
            if (owner := path.read_text()) not in (uid, ""):
                self.note(f"{device.device} is handed out twice: {owner} has it", uid)
            path.write_text(uid)

    def place(self, device):
        return self.hardware / f"{device.device}{device.share_id}"

    def note(self, verb, what):
        with (self.hardware / "log").open("a") as log:
            log.write(f"{verb} {getattr(what, 'name', what)}\n")

    @property
    def asked(self):
        log = self.hardware / "log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def in_use(self):
        return sorted(path.name for path in self.hardware.iterdir() if path.name != "log")


async def main(root: Path, hardware: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    options = RunnerOptions(
        node_name=os.environ["NODE_NAME"],
        kubelet_root=root,
        cdi_directory=root / "cdi",
        pod_uid=os.environ.get("POD_UID", ""),
        # A node agent that starts wipes the slices of its node: they are back in a second, not in thirty.
        repair_delay=1.0,
    )
    async with (
        ApiClient(HttpTransport(Kubeconfig.load().endpoint())) as client,
        DriverRunner(GpuDriver(hardware), client, options),
    ):
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
