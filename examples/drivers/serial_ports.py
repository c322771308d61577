"""A DRA driver for the serial ports of a node: each is a device, and a container gets the ports that its claim got.

    python examples/drivers/serial_ports.py NODE_NAME ["/dev/ttyUSB*"]

It runs beside the node's kubelet, as root, and finds the API server as kubectl does.
"""

import asyncio
import sys
from glob import glob
from pathlib import Path

import dray.driver as dra
from dray.client.api import ApiClient
from dray.client.http import HttpTransport
from dray.client.kubeconfig import Kubeconfig
from dray.driver.runner import DriverRunner


class PortConfig(dra.Config):
    api_version = "serial.example.com/v1"
    baud_rate: int = 9600


class SerialPorts(dra.Driver):
    name = "serial.example.com"
    configs = (PortConfig,)

    def __init__(self, pattern: str = "/dev/ttyUSB*", interval: float = 10.0) -> None:
        self.ports = {Path(path).name.lower(): Path(path) for path in sorted(glob(pattern))}
        self.interval = interval

    async def devices(self):
        return [dra.Device(name, attributes={"path": str(path)}) for name, path in self.ports.items()]

    async def prepare(self, claim):
        return dra.Prepared([dra.PreparedDevice(device, self.edits(device)) for device in claim.devices])

    def edits(self, device):
        config = device.config(PortConfig) or PortConfig()
        path = str(self.ports[device.device])
        env = dra.variables({"SERIAL_PORT": path, "BAUD_RATE": str(config.baud_rate)})
        return dra.ContainerEdits(env=env, device_nodes=(dra.DeviceNode(path, permissions="rw"),))

    async def health(self):
        states = {True: dra.Health.HEALTHY, False: dra.Health.UNHEALTHY}
        while True:
            here = [(name, states[path.exists()]) for name, path in self.ports.items()]
            yield [dra.DeviceHealth(self.context.node_name, *each) for each in here]
            await asyncio.sleep(self.interval)


async def main(node_name: str, *pattern: str) -> None:
    async with ApiClient(HttpTransport(Kubeconfig.load().endpoint())) as client:
        await DriverRunner(SerialPorts(*pattern), client, dra.RunnerOptions(node_name=node_name)).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
