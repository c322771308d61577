import os
import shutil
from pathlib import Path

import pytest

from dray.node import network_namespaces
from dray.node.runtimes.shim import system
from tests.drivers.nic.networks import PodNetwork, ip, unmount_below


@pytest.fixture
def host_network(tmp_path):
    """The thread of the test, and all that it starts, is in a network of its own: interfaces of this machine are out
    of reach."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("needs root and the ip command: interfaces are moved between network namespaces")
    before = os.open(network_namespaces.OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            system.unshare(system.CLONE_NEWNET)
        except OSError as error:
            pytest.skip(f"network namespaces cannot be made here: {error}")
        ip("link", "set", "lo", "up")
        # Podman turns it on with the first container, for all interfaces that there are.
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        yield
    finally:
        system.setns(before, system.CLONE_NEWNET)
        os.close(before)
        unmount_below(tmp_path)


@pytest.fixture
def pod_network(host_network, tmp_path):
    """Makes networks of pods."""
    made = []

    def make(name="pod"):
        made.append(PodNetwork(tmp_path / f"netns-{name}-{len(made)}"))
        return made[-1]

    yield make
    for each in made:
        each.end()
