"""`dray up --node` with the driver beside it: a pod sees the interface of its claim, through kills of everything."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dray.cli import main
from tests.cli.running import Running, eventually
from tests.cli.test_up import wait
from tests.drivers.nic.networks import interfaces, make_interface, seen
from tests.drivers.nic.trees import SysfsTree

MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: nic}
spec: {selectors: [{cel: {expression: 'device.driver == "dra.net"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: fast}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: nic
        selectors: [{cel: {expression: 'device.attributes["dra.net"].ifName == "nic0"'}}]
    config:
    - requests: [nic]
      opaque:
        driver: dra.net
        parameters:
          interface: {name: net1, mtu: 1300, addresses: ["10.0.0.18/16"]}
          routes: [{destination: 10.0.0.0/8, gateway: 10.0.0.1}]
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: fast, resourceClaimName: fast}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "ip -j addr; exec sleep 999"]
"""


class Node:
    """`dray up --node` and the driver, in the network of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "data/kubeconfig"
        SysfsTree(folder / "sys")

    def start(self) -> None:
        arguments = ("up", "--port", "0", "--plain", "--node", "--data", "data")
        self.log = open(self.folder / "log", "a")  # noqa: SIM115  closed in kill
        self.up = Running(*arguments, cwd=self.folder, log=self.log)
        wait(self.up)
        root = self.folder / "data/node"
        places = ("--kubeconfig", self.config, "--kubelet-root", root, "--cdi-dir", root / "cdi")
        settings = {"sysfsRoot": self.folder / "sys", "stateDirectory": self.folder / "state"}
        settings |= {"excludeTypes": "", "excludeInterfaces": "*p"}
        given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        self.driver = Running("driver", "nic", *map(str, places), *given, cwd=self.folder, log=self.log)

    def kill(self) -> None:
        """All of it at once, with the agent, which is a child of `dray up`."""
        children = Path(f"/proc/{self.up.process.pid}/task/{self.up.process.pid}/children").read_text().split()
        for pid in (self.driver.process.pid, *map(int, children), self.up.process.pid):
            os.kill(pid, signal.SIGKILL)
        for each in (self.driver, self.up):
            each.process.wait()
            assert each.process.stdout is not None
            each.process.stdout.close()
        self.log.close()

    def dray(self, *arguments: str) -> str:
        result = CliRunner().invoke(main, [*arguments, "--kubeconfig", str(self.config)])
        return result.stdout if result.exit_code == 0 else ""

    def pod(self) -> dict:
        found = self.dray("get", "pod", "p", "-o", "json")
        return json.loads(found) if found else {}


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: the paths of sockets below it are at most 107 characters long."""
    with tempfile.TemporaryDirectory(prefix="dray-nic-") as made:
        yield Path(made)


@pytest.mark.time_limit(180)
def test_a_pod_has_its_interface_until_it_is_deleted(host_network, folder):
    before = make_interface("nic0")
    (folder / "pod.yaml").write_text(MANIFEST)
    node = Node(folder)
    node.start()
    try:
        eventually(lambda: node.dray("apply", "-f", str(folder / "pod.yaml")))

        def written():
            files = list(folder.glob("data/node/logs/default_p_*/main/0.log"))
            return files[0].read_text().split(" ", 3)[3:] if files else []

        # No container names the claim, as in the manifests of others: the interface is the pod's.
        addresses = {each["ifname"]: each for each in json.loads(eventually(written)[0])}
        assert set(addresses) == {"lo", "net1"}
        assert addresses["net1"]["mtu"] == 1300
        assert eventually(lambda: node.pod()["status"].get("podIP")) == "10.0.0.18"

        def told():
            found = node.dray("get", "resourceclaim", "fast", "-o", "json")
            return json.loads(found)["status"].get("devices") if found else None

        (entry,) = eventually(told)
        assert entry["networkData"]["interfaceName"] == "net1"
        node.kill()
        # The pod goes on, and with it its interface.
        assert interfaces() == {"nic0p"}
        node.start()
        eventually(lambda: node.pod().get("status", {}).get("phase") == "Running")
        assert interfaces() == {"nic0p"}
        eventually(lambda: node.dray("delete", "pod", "p"))
        assert eventually(lambda: not node.pod())
        assert seen("nic0") == before
        assert not list((folder / "state/netns").iterdir())
    finally:
        node.kill()
