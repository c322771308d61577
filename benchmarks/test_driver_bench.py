"""What a driver costs: preparing a claim again through the whole gRPC path, and publishing many devices."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from dray.driver import Device, Pool
from tests.driver.independent import Plugin
from tests.driver.node import NAME, Lamps, node_with_kubelet

# Cycles measured together, so that starting the loop does not count.
BATCH = 4
DEVICES = 10_000


@pytest.fixture
def runner():
    with asyncio.Runner() as runner:
        yield runner


def test_prepare_again_through_grpc(benchmark, runner):
    async def start():
        stack = AsyncExitStack()
        node = await stack.enter_async_context(node_with_kubelet())
        driver = await stack.enter_async_context(node.running(Lamps()))
        plugin = await stack.enter_async_context(Plugin(driver.options.dra_socket(NAME)))
        claim = await node.claim("lamp-0")
        return stack, plugin, claim

    stack, plugin, claim = runner.run(start())

    async def prepare():
        for _ in range(BATCH):
            answered = await plugin.prepare(claim)
            assert not answered[claim["uid"]].error

    benchmark(lambda: runner.run(prepare()))
    benchmark.extra_info["ms"] = benchmark.stats["median"] / BATCH * 1e3
    runner.run(stack.aclose())
    assert benchmark.stats["min"] / BATCH < 0.015


class Many(Lamps):
    async def pools(self):
        attributes = {"model": "L1", "watts": 40, "driverVersion": "1.0.0"}
        return [Pool("node-1", [Device(f"lamp-{n}", attributes, {"light": "10Gi"}) for n in range(DEVICES)])]


def test_publish_ten_thousand_devices(benchmark, runner):
    async def start():
        stack = AsyncExitStack()
        return stack, await stack.enter_async_context(node_with_kubelet())

    async def publish(node):
        async with node.running(Many()) as driver:
            await driver.publisher.published()

    def fresh():
        stack, node = runner.run(start())
        stacks.append(stack)
        return (node,), {}

    stacks = []
    benchmark.pedantic(lambda node: runner.run(publish(node)), setup=fresh, rounds=3)
    for stack in stacks:
        runner.run(stack.aclose())
    assert benchmark.stats["min"] < 3
