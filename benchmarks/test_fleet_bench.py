"""Fleets: devices made from machine types, and a fleet that registers its nodes and publishes its slices."""

import asyncio

from dray.client.api import ApiClient
from dray.fleet.choice import choose
from dray.fleet.pools import pools_of
from dray.fleet.simulation import Simulation
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.store.memory import MemoryStore

NODES = 500


def test_devices_of_a_machine_with_mig(benchmark):
    """208 devices with counters, and 34 others."""
    machines = iter(choose(["p5.48xlarge:mig=2000"]).machines)
    pools = benchmark.pedantic(lambda: pools_of(next(machines)), rounds=50)
    assert sum(len(content.devices) for contents in pools.values() for content in contents) == 8 * 26 + 32 + 2


async def _start(count):
    server = ApiServer(Context(MemoryStore()))
    await server.start()
    simulation = Simulation(ApiClient(InProcessTransport(Application(server))), choose([f"a3-highgpu-8g={count}"]))
    running = asyncio.create_task(simulation.run())
    await simulation.ready.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await server.close()
    return simulation.published


def test_500_nodes_register_and_publish(benchmark):
    """Server and fleet in one process."""
    published = benchmark.pedantic(lambda: asyncio.run(_start(NODES)), rounds=2)
    assert (published["nodes"], published["resourceslices"]) == (NODES, 3 * NODES)
