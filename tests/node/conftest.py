import pytest

from dray.testing.cluster import LocalCluster
from tests.node.machines import Machine


@pytest.fixture
async def machine(tmp_path):
    """A node agent that runs pods as processes, on a cluster of its own."""
    async with LocalCluster(controllers=["serviceaccount"]) as cluster:
        machine = Machine(cluster, tmp_path)
        await machine.start()
        yield machine
        await machine.stop()
        await machine.clean()
