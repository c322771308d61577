"""The hook of a claim run by an OCI runtime (runc), once for each container that names the claim: as containerd and
CRI-O run it on the machine of a kubelet."""

import secrets
import subprocess

import pytest

from dray.node.cdi import resolve
from dray.node.runtimes.podman.hooks import write_hooks
from tests.drivers.nic.networks import interfaces, make_interface, seen
from tests.drivers.nic.test_driver import config, nic, world
from tests.node.runtimes import busybox

pytestmark = busybox.needs_podman
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
LOOK = "ip addr show net1; ip route; exec sleep 999"


def podman(*arguments, options=()):
    done = subprocess.run([*busybox.PODMAN, *options, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Containers:
    """Of one pod: the first has a network of its own, which the others share."""

    def __init__(self, image, options):
        self.name = f"dray-nic-{secrets.token_hex(4)}"
        self._image = image
        self._options = options
        self._count = 0

    def run(self, *command):
        name, self._count = f"{self.name}-{self._count}", self._count + 1
        network = "none" if name.endswith("-0") else f"container:{self.name}-0"
        given = ("run", "--detach", "--name", name, *LIMITS, "--network", network, self._image, *command)
        code, told = podman(*given, options=self._options)
        return name, code, told

    def remove(self):
        for number in reversed(range(self._count)):
            podman("rm", "--force", "--ignore", "--time", "0", f"{self.name}-{number}")


@pytest.fixture
def image():
    """Comes before `host_network`: it runs a container, and podman leaves a bridge in the network that it finds."""
    return busybox.image()


async def test_containers_that_name_the_claim_have_its_interface(image, host_network, tmp_path):
    before = make_interface("nic0")
    wanted = config(
        "of-nic0",
        interface={"name": "net1", "mtu": 1300, "addresses": ["10.0.0.18/16"]},
        routes=[{"destination": "10.0.0.0/8", "gateway": "10.0.0.1"}],
    )
    async with world(tmp_path) as here:
        await here.place("p", nic(), config=wanted)
        started = await here.kubelet.start_pod("p")
        hooks = resolve(started.cdi_ids["main"], [here.kubelet.cdi]).sandbox_hooks
        assert [each.hook_name for each in hooks] == ["createRuntime"]
        containers = Containers(image, write_hooks(hooks, tmp_path / "hooks"))
        try:
            for _ in range(2):
                name, code, told = containers.run("sh", "-c", LOOK)
                assert code == 0, told
                assert interfaces() == {"nic0p"}

                async def written(container=name):
                    return "10.0.0.0/8" in podman("logs", container)[1]

                await here.kubelet.eventually(written, "the container has looked")
                log = podman("logs", name)[1]
                assert " mtu 1300 " in log
                assert "inet 10.0.0.18/16 " in log
                assert "10.0.0.0/8 via 10.0.0.1 dev net1" in log
            (entry,) = (await here.status("p")).values()
            assert entry["networkData"]["interfaceName"] == "net1"
        finally:
            containers.remove()
        # The network of the pod has vanished; the interface has not.
        assert interfaces() == {"nic0p"}
        await here.kubelet.end_pod("p")
        assert seen("nic0") == before


async def test_a_container_whose_interface_cannot_be_had_does_not_start(image, host_network, tmp_path):
    before = make_interface("nic0")
    wanted = config(
        "of-nic0",
        # With the addresses of the host, of which the configuration alone does not tell.
        interface={"name": "net1"},
        routes=[{"destination": "10.9.0.0/16", "gateway": "192.168.7.1"}],
    )
    async with world(tmp_path) as here:
        await here.place("p", nic(), config=wanted)
        started = await here.kubelet.start_pod("p")
        hooks = resolve(started.cdi_ids["main"], [here.kubelet.cdi]).sandbox_hooks
        containers = Containers(image, write_hooks(hooks, tmp_path / "hooks"))
        try:
            _, code, told = containers.run("sleep", "999")
        finally:
            containers.remove()
        assert code != 0
        assert "route to 10.9.0.0/16: Network is unreachable" in told
        assert seen("nic0") == before
        (entry,) = (await here.status("p")).values()
        assert "Network is unreachable" in entry["conditions"][0]["message"]
        await here.kubelet.end_pod("p")
        assert seen("nic0") == before
