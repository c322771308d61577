"""`dray up --node` with the driver beside it: a pod sees the interface of its claim, through kills of everything.

With either runtime; containers of podman are real ones, made of an image with busybox. DRAY_NODE_KILLS sets how often
everything is killed at random, DRAY_NODE_SEED the moments.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dray.cli import main
from tests.cli.running import Running, eventually
from tests.cli.test_up import wait
from tests.drivers.nic.networks import interfaces, make_interface, seen, unmount_below
from tests.drivers.nic.trees import SysfsTree
from tests.node.runtimes import busybox

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
  # None need name the claim, as in the manifests of others: the interface is the pod's.
  - name: bystander
    image: IMAGE
    command: [sh, -c, "COMMAND"]
  - name: main
    image: IMAGE
    command: [sh, -c, "COMMAND"]
    resources: {claims: [{name: fast}]}
"""
COMMAND = "ip link show net1; ip addr show net1; ip route; echo end; exec sleep 999"
KILLS = int(os.environ.get("DRAY_NODE_KILLS", "1"))
# Within which a pod starts and ends.
START_SECONDS, END_SECONDS = 4.0, 3.0
RUNTIMES = ["process", pytest.param("podman", marks=busybox.needs_podman)]


class Node:
    """`dray up --node` and the driver, in the network of the test."""

    def __init__(self, folder: Path, runtime: str) -> None:
        self.folder = folder
        self.runtime = runtime
        self.config = folder / "data/kubeconfig"
        self.image = busybox.image() if runtime == "podman" else "busybox"
        SysfsTree(folder / "sys")

    def start(self) -> None:
        arguments = ("up", "--port", "0", "--plain", "--node", "--runtime", self.runtime, "--data", "data")
        self.log = open(self.folder / "log", "a")  # noqa: SIM115  closed in kill
        self.up = Running(*arguments, cwd=self.folder, log=self.log)
        wait(self.up)
        root = self.folder / "data/node"
        places = ("--kubeconfig", self.config, "--kubelet-root", root, "--cdi-dir", root / "cdi")
        settings = {"sysfsRoot": self.folder / "sys", "stateDirectory": self.folder / "state"}
        settings |= {"excludeTypes": "", "excludeInterfaces": "*p,podman*"}
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

    def containers(self) -> list[str]:
        """Of podman, and of this node."""
        if self.runtime != "podman":
            return []
        label = f"label=io.dray.root={os.path.realpath(self.folder / 'data/node/podman')}"
        listed = subprocess.run(
            [*busybox.PODMAN, "ps", "--all", "--quiet", "--no-trunc", "--filter", label],
            capture_output=True,
            text=True,
            check=True,
        )
        return listed.stdout.split()

    def end(self) -> None:
        self.kill()
        if left := self.containers():
            subprocess.run(
                [*busybox.PODMAN, "rm", "--force", "--ignore", "--depend", "--time", "0", *left],
                check=True,
                capture_output=True,
            )

    def apply(self) -> None:
        manifest = MANIFEST.replace("IMAGE", self.image).replace("COMMAND", COMMAND)
        (self.folder / "pod.yaml").write_text(manifest)
        eventually(lambda: self.dray("apply", "-f", str(self.folder / "pod.yaml")))

    def dray(self, *arguments: str) -> str:
        result = CliRunner().invoke(main, [*arguments, "--kubeconfig", str(self.config)])
        return result.stdout if result.exit_code == 0 else ""

    def pod(self) -> dict:
        found = self.dray("get", "pod", "p", "-o", "json")
        return json.loads(found) if found else {}

    def is_running(self) -> bool:
        return self.pod().get("status", {}).get("phase") == "Running"

    def devices(self) -> list:
        """As the status of the claim tells of them."""
        found = self.dray("get", "resourceclaim", "fast", "-o", "json")
        return json.loads(found)["status"].get("devices", []) if found else []

    def written(self, container: str) -> str:
        """What the container has seen of its network, once it has written everything."""
        files = list(self.folder.glob(f"data/node/logs/default_p_*/{container}/0.log"))
        lines = [line.split(" ", 3)[3] for line in files[0].read_text().splitlines()] if files else []
        return "\n".join(lines) if "end" in lines else ""


@pytest.fixture
def folder(host_network) -> Iterator[Path]:
    """With a short name: the paths of sockets below it are at most 107 characters long."""
    with tempfile.TemporaryDirectory(prefix="dray-nic-") as made:
        yield Path(made)
        unmount_below(made)


@pytest.fixture(params=RUNTIMES)
def node(folder: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    made = Node(folder, request.param)
    made.start()
    try:
        yield made
    finally:
        made.end()


@pytest.mark.time_limit(180)
def test_a_pod_has_its_interface_until_it_is_deleted(node):
    before = make_interface("nic0")
    node.apply()
    for container in ("bystander", "main"):
        written = eventually(lambda name=container: node.written(name))
        assert " net1" in written
        assert " mtu 1300 " in written
        assert "inet 10.0.0.18/16 " in written
        assert "10.0.0.0/8 via 10.0.0.1 dev net1" in written
    # Beside it, a pod of podman has the network of podman, and its address.
    if node.runtime == "process":
        assert eventually(lambda: node.pod()["status"].get("podIP")) == "10.0.0.18"
    else:
        assert eventually(lambda: node.pod()["status"].get("podIP")) not in ("10.0.0.18", "127.0.0.1")
    (entry,) = eventually(node.devices)
    assert entry["networkData"]["interfaceName"] == "net1"
    assert entry["networkData"]["ips"] == ["10.0.0.18/16"]
    node.kill()
    # The pod goes on, and with it its interface.
    assert "nic0" not in interfaces()
    node.start()
    eventually(node.is_running)
    assert "nic0" not in interfaces()
    eventually(lambda: node.dray("delete", "pod", "p"))
    assert eventually(lambda: not node.pod())
    assert seen("nic0") == before
    assert not list(node.folder.glob("state/netns/*"))
    assert eventually(lambda: not node.containers())


@pytest.mark.time_limit(max(180, 60 * KILLS))
def test_killed_at_any_moment_the_interface_is_back_when_the_pod_is_gone(node):
    """Everything at once, while the pod starts and while it ends."""
    before = make_interface("nic0")
    seed = int(os.environ.get("DRAY_NODE_SEED", random.randrange(10**6)))
    print(f"DRAY_NODE_SEED={seed}")
    rng = random.Random(seed)
    for _ in range(KILLS):
        node.apply()
        time.sleep(rng.uniform(0, START_SECONDS))
        node.kill()
        node.start()
        if rng.random() < 0.6:
            assert "10.0.0.0/8 via 10.0.0.1 dev net1" in eventually(lambda: node.written("main"))
            assert "nic0" not in interfaces()
        eventually(lambda: node.dray("delete", "pod", "p", "--no-wait") or not node.pod())
        time.sleep(rng.uniform(0, END_SECONDS))
        node.kill()
        node.start()
        eventually(lambda: not node.pod())
        eventually(lambda: seen("nic0") == before)
        eventually(lambda: not list(node.folder.glob("state/netns/*")))
        eventually(lambda: not node.containers())
        assert node.dray("delete", "resourceclaim", "fast")
