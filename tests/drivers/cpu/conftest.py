import pytest

from tests.drivers.cpu.runc import Runc
from tests.node.cpusets.fixtures import kernel_cgroups, start_process, two_cpus

__all__ = ["kernel_cgroups", "runc", "start_process", "two_cpus"]


@pytest.fixture
def runc(kernel_cgroups, tmp_path):
    made = Runc(tmp_path, f"/{kernel_cgroups.root.name}")
    yield made
    made.close()
