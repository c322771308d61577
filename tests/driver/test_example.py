"""The example driver, served to a kubelet."""

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

from dray.testing.api_endpoint import ApiEndpoint
from tests.driver.node import Node
from tests.node.clusters import NODE, kubelet_on_cluster

EXAMPLE = Path(__file__).parents[2] / "examples/drivers/serial_ports.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("serial_ports", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_fits_on_a_page() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 60


async def test_a_container_gets_the_port_of_its_claim(kubelet_node: Node) -> None:
    ports = kubelet_node.root / "dev"
    ports.mkdir()
    for name in ("ttyUSB0", "ttyUSB1"):
        (ports / name).touch()
    driver = load().SerialPorts(f"{ports}/tty*", interval=0.01)
    async with kubelet_node.plugin(driver) as plugin:

        async def devices() -> list[tuple[str, bool]]:
            found = await kubelet_node.cluster.list("ResourceSlice")
            return [(each["name"], "taints" in each) for slice_ in found for each in slice_["spec"]["devices"]]

        async def published() -> bool:
            return await devices() == [("ttyusb0", False), ("ttyusb1", False)]

        await kubelet_node.cluster.eventually(published)
        result = {"device": "ttyusb1", "driver": driver.name}
        parameters = {"apiVersion": "serial.example.com/v1", "kind": "PortConfig", "baudRate": 115200}
        config = {"source": "FromClaim", "opaque": {"driver": driver.name, "parameters": parameters}}
        claim = await kubelet_node.claim(result, config=[config])
        assert (await plugin.prepare(claim))[claim["uid"]].error == ""
        (spec,) = kubelet_node.cdi.iterdir()
        assert json.loads(spec.read_text())["devices"][0]["containerEdits"] == {
            "env": [f"SERIAL_PORT={ports}/ttyUSB1", "BAUD_RATE=115200"],
            "deviceNodes": [{"path": f"{ports}/ttyUSB1", "permissions": "rw"}],
        }

        # Somebody pulls the plug of the other one.
        (ports / "ttyUSB0").unlink()

        async def tainted() -> bool:
            return await devices() == [("ttyusb0", True), ("ttyusb1", False)]

        await kubelet_node.cluster.eventually(tainted)


# The example as it is, in directories of the test.
RUN = """
import functools, runpy, sys
from pathlib import Path
import dray.driver as dra
root = Path(sys.argv[2])
dra.RunnerOptions = functools.partial(dra.RunnerOptions, kubelet_root=root, cdi_directory=root / "cdi")
sys.argv = [sys.argv[1], *sys.argv[3:]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


async def test_sigterm_ends_it_in_order_and_leaves_no_socket() -> None:
    async with kubelet_on_cluster() as (cluster, kubelet), ApiEndpoint(cluster.application) as endpoint:
        kubelet.kubeconfig = endpoint.write_kubeconfig(kubelet.root / "kubeconfig")
        ports = str(kubelet.root / "no-ports-*")
        process = kubelet.start_driver([sys.executable, "-c", RUN, EXAMPLE, kubelet.root, NODE, ports])
        await kubelet.registered("serial.example.com", within=30)
        assert len(list(kubelet.root.rglob("*serial*/*.sock"))) + len(list(kubelet.root.rglob("*-reg.sock"))) == 2
        assert await asyncio.to_thread(process.stop, 30) == 0, process.output()
        assert list(kubelet.root.rglob("*serial*/*.sock")) == []
        assert list(kubelet.root.rglob("*-reg.sock")) == []
