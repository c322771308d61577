import asyncio

import pytest

from tests.scheduling_loop.cluster import VirtualCluster


@pytest.fixture
async def virtual_cluster(virtual_time):
    """A cluster in virtual time, with a scheduler."""
    async with VirtualCluster() as cluster:
        cluster.schedule()
        await asyncio.sleep(1)
        yield cluster
