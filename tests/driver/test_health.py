"""Health: streams to the kubelet, repeated reports, taints on unhealthy devices and their end."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import grpc
import pytest

from dray.driver import DeviceHealth, Health
from dray.driver.runner import DriverRunner
from tests.driver.independent import Plugin
from tests.driver.node import NAME, Lamps, Node

REPORT = {Health.HEALTHY: "", Health.UNHEALTHY: "it smokes", Health.UNKNOWN: "?"}


class Watched(Lamps):
    """Reports what is put into `reports`; an exception is raised."""

    def __init__(self) -> None:
        super().__init__(2)
        self.reports: asyncio.Queue[Sequence[DeviceHealth] | Exception] = asyncio.Queue()
        self.timeout = 30

    async def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        while True:
            report = await self.reports.get()
            if isinstance(report, Exception):
                raise report
            yield report

    def report(self, *health: Health) -> None:
        self.reports.put_nowait(
            [
                DeviceHealth("node-1", f"lamp-{number}", each, REPORT[each], self.timeout)
                for number, each in enumerate(health)
            ]
        )


def watch(plugin: Plugin, version: str = "v1") -> AsyncIterator[list[tuple[str, str, int, str, int]]]:
    stream = plugin.stream(f"{version}.DRAResourceHealth/NodeWatchResources")

    async def read() -> AsyncIterator[list[tuple[str, str, int, str, int]]]:
        async for response in stream:
            yield [
                (
                    each.device.pool_name,
                    each.device.device_name,
                    each.health,
                    each.message,
                    each.health_check_timeout_seconds,
                )
                for each in response.devices
            ]

    return read()


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
async def test_reports_are_streamed_in_both_versions(kubelet_node: Node, version: str) -> None:
    driver = Watched()
    async with kubelet_node.running(driver) as runner, Plugin(runner.options.dra_socket(NAME)) as plugin:
        async with Plugin(runner.options.registration_socket(NAME)) as registrar:
            info = await registrar.call("pluginregistration.Registration/GetInfo")
            assert list(info.supported_versions)[2:] == ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]
        driver.report(Health.HEALTHY, Health.UNHEALTHY)
        first = watch(plugin, version)
        expected = [("node-1", "lamp-0", 1, "", 30), ("node-1", "lamp-1", 2, "it smokes", 30)]
        assert await anext(first) == expected
        # A kubelet that connects later gets what is known.
        assert await anext(watch(plugin, version)) == expected
        driver.report(Health.HEALTHY, Health.HEALTHY)
        assert [each[2] for each in await anext(first)] == [1, 1]


async def test_a_report_is_repeated_before_it_expires(kubelet_node: Node) -> None:
    driver = Watched()
    driver.timeout = 1
    async with kubelet_node.running(driver) as runner, Plugin(runner.options.dra_socket(NAME)) as plugin:
        driver.report(Health.HEALTHY)
        stream = watch(plugin)
        start = asyncio.get_running_loop().time()
        first, second = await anext(stream), await anext(stream)
        assert first == second
        assert asyncio.get_running_loop().time() - start >= 0.3


async def test_streams_end_with_the_driver(kubelet_node: Node) -> None:
    driver = Watched()
    runner = DriverRunner(driver, kubelet_node.cluster.client, kubelet_node.options(grace=30.0))
    await runner.__aenter__()
    async with Plugin(runner.options.dra_socket(NAME)) as plugin:
        stream = watch(plugin)
        driver.report(Health.HEALTHY)
        await anext(stream)
        # It does not take the whole time that calls are given.
        async with asyncio.timeout(10):
            await runner.__aexit__(None, None, None)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_without_health_the_kubelet_is_told_so(kubelet_node: Node) -> None:
    async with kubelet_node.plugin(Lamps()) as plugin:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await anext(watch(plugin))
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_an_unhealthy_device_is_tainted_until_it_is_healthy(kubelet_node: Node) -> None:
    cluster, driver = kubelet_node.cluster, Watched()

    async def taints() -> list[list[tuple[str, str]]]:
        (found,) = await cluster.list("ResourceSlice")
        return [
            [(each["key"], each["effect"]) for each in device.get("taints", ())] for device in found["spec"]["devices"]
        ]

    async def become(*expected: list[tuple[str, str]]) -> None:
        async def holds() -> bool:
            return await taints() == list(expected)

        await cluster.eventually(holds)

    unhealthy = [(f"{NAME}/unhealthy", "NoSchedule")]
    async with kubelet_node.running(driver) as runner:
        await runner.publisher.published()
        driver.report(Health.HEALTHY, Health.UNHEALTHY)
        await become([], unhealthy)
        # Not to know is no reason to change anything.
        driver.report(Health.UNHEALTHY, Health.UNKNOWN)
        await become(unhealthy, unhealthy)
        driver.report(Health.HEALTHY, Health.HEALTHY)
        await become([], [])
    assert runner.metrics.registry.get_sample_value("dra_driver_unhealthy_devices", {"driver_name": NAME}) == 0


async def test_the_author_chooses_what_the_taint_does(kubelet_node: Node) -> None:
    class Evicting(Watched):
        unhealthy_effect = "NoExecute"

    driver = Evicting()
    async with kubelet_node.running(driver) as runner:
        await runner.publisher.published()
        driver.report(Health.UNHEALTHY)

        async def evicting() -> bool:
            return "NoExecute" in str(await kubelet_node.cluster.list("ResourceSlice"))

        await kubelet_node.cluster.eventually(evicting)


async def test_a_health_check_that_fails_is_begun_again(kubelet_node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.driver.health_reports._RETRY", 0.01)
    driver = Watched()
    async with kubelet_node.running(driver) as runner, Plugin(runner.options.dra_socket(NAME)) as plugin:
        stream = watch(plugin)
        driver.report(Health.HEALTHY)
        await anext(stream)
        driver.reports.put_nowait(RuntimeError("no sensor"))
        driver.report(Health.UNHEALTHY)
        assert (await anext(stream))[0][2] == 2
