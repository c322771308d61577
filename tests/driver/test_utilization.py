"""Utilization of devices: metrics of the driver, and reports in the status of claims."""

from collections.abc import Sequence
from typing import Any

import pytest

from dray.api.device_utilization import reports_of
from dray.api.objects import Object
from dray.api.times import seconds_of
from dray.client.errors import ApiError
from dray.driver import Claim, DeviceStatus, DeviceUtilization, Prepared, PreparedDevice
from dray.driver.claim_lookup import RESOURCE_CLAIMS
from dray.driver.runner import DriverRunner
from tests.driver.independent import Plugin
from tests.driver.node import NAME, Lamps, Node

PROMPT = {"utilization_seconds": 3600.0, "utilization_write_seconds": 0.0, "idle_seconds": 0.0}
LAMP = (NAME, "node-1", "lamp-0")


class Metered(Lamps):
    def __init__(self) -> None:
        super().__init__()
        self.ratio: float | None = 0.5
        self.memory = 1000

    async def prepare(self, claim: Claim) -> Prepared:
        return Prepared([PreparedDevice(device, status=DeviceStatus(data={"uuid": "u"})) for device in claim.devices])

    async def utilization(self) -> Sequence[DeviceUtilization]:
        return [DeviceUtilization("node-1", f"lamp-{number}", self.ratio, self.memory) for number in range(2)]


async def stored(node: Node, claim: dict[str, str]) -> Object:
    found = await node.cluster.get("ResourceClaim", claim["name"])
    assert found is not None
    return found


async def report(runner: DriverRunner) -> None:
    assert runner.utilization is not None
    await runner.utilization.report()


def gauge(runner: DriverRunner, name: str, device: str) -> float | None:
    return runner.metrics.registry.get_sample_value(name, {"driver_name": NAME, "pool": "node-1", "device": device})


async def prepared(node: Node, runner: DriverRunner, *devices: str) -> dict[str, str]:
    claim = await node.claim(*devices)
    async with Plugin(runner.options.dra_socket(NAME)) as plugin:
        assert (await plugin.prepare(claim))[claim["uid"]].error == ""
    return claim


async def test_metrics_and_claim_tell_how_busy_a_device_is(kubelet_node: Node) -> None:
    async with kubelet_node.running(Metered(), **PROMPT) as runner:
        claim = await prepared(kubelet_node, runner, "lamp-0")
        await report(runner)
        assert gauge(runner, "dray_device_utilization_ratio", "lamp-1") == 0.5
        assert gauge(runner, "dray_device_memory_used_bytes", "lamp-0") == 1000
        found = await stored(kubelet_node, claim)
        (place, utilization), *rest = reports_of(found)
        assert (place, utilization.percent, utilization.memory_used, utilization.idle_since) == (LAMP, 50, 1000, "")
        assert not rest
        # What the driver itself has to say about the device stays.
        assert found["status"]["devices"][0]["data"]["uuid"] == "u"


async def test_small_changes_are_not_written(kubelet_node: Node) -> None:
    driver = Metered()
    async with kubelet_node.running(driver, **PROMPT) as runner:
        claim = await prepared(kubelet_node, runner, "lamp-0")
        await report(runner)
        version = (await stored(kubelet_node, claim))["metadata"]["resourceVersion"]
        driver.ratio, driver.memory = 0.55, 1010
        await report(runner)
        assert (await stored(kubelet_node, claim))["metadata"]["resourceVersion"] == version
        driver.ratio = 0.7
        await report(runner)
        ((_, utilization),) = reports_of(await stored(kubelet_node, claim))
        assert utilization.percent == 70


async def test_a_claim_is_written_once_a_minute_at_most(kubelet_node: Node) -> None:
    driver = Metered()
    async with kubelet_node.running(driver, **{**PROMPT, "utilization_write_seconds": 3600.0}) as runner:
        claim = await prepared(kubelet_node, runner, "lamp-0")
        await report(runner)
        driver.ratio = 0.9
        await report(runner)
        ((_, utilization),) = reports_of(await stored(kubelet_node, claim))
        assert utilization.percent == 50


async def test_idle_since_survives_a_restart_and_ends_with_work(kubelet_node: Node) -> None:
    driver = Metered()
    driver.ratio = 0.01
    async with kubelet_node.running(driver, **PROMPT) as runner:
        claim = await prepared(kubelet_node, runner, "lamp-0")
        await report(runner)
        ((_, first),) = reports_of(await stored(kubelet_node, claim))
        assert first.idle_since
    async with kubelet_node.running(driver, **{**PROMPT, "idle_seconds": 3600.0}) as runner:
        await report(runner)
        ((_, second),) = reports_of(await stored(kubelet_node, claim))
        assert second.idle_since == first.idle_since
        driver.ratio = 0.9
        await report(runner)
        ((_, third),) = reports_of(await stored(kubelet_node, claim))
        assert (third.percent, third.idle_since) == (90, "")


async def test_a_damaged_report_is_replaced(kubelet_node: Node) -> None:
    driver = Metered()
    driver.ratio = 0.01
    async with kubelet_node.running(driver, **PROMPT) as runner:
        claim = await prepared(kubelet_node, runner, "lamp-0")
        found = await stored(kubelet_node, claim)
        found["status"]["devices"][0]["data"] = {"utilization": {"percent": 1, "idleSince": "long ago"}}
        await kubelet_node.cluster.client.update_status(RESOURCE_CLAIMS, found)
        await report(runner)
        ((_, utilization),) = reports_of(await stored(kubelet_node, claim))
        assert seconds_of(utilization.idle_since) is not None


async def test_the_report_goes_when_the_claim_is_unprepared(kubelet_node: Node) -> None:
    async with kubelet_node.running(Metered(), **PROMPT) as runner:
        claim = await prepared(kubelet_node, runner, "lamp-0", "lamp-1")
        await report(runner)
        assert len(list(reports_of(await stored(kubelet_node, claim)))) == 2
        async with Plugin(runner.options.dra_socket(NAME)) as plugin:
            await plugin.unprepare(claim)
        await report(runner)
        found = await stored(kubelet_node, claim)
        assert not list(reports_of(found))
        assert found["status"]["devices"][0]["data"] == {"uuid": "u"}


async def test_a_claim_that_no_pod_of_the_node_has_any_more_is_left_alone(
    kubelet_node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: Any, **__: Any) -> Object:
        # The node authorizer's answer, also about claims that are gone.
        raise ApiError(403, "Forbidden", "no relationship found between node 'node-1' and this object")

    async with kubelet_node.running(Metered(), **PROMPT) as runner:
        claim = await prepared(kubelet_node, runner, "lamp-0")
        await report(runner)
        async with Plugin(runner.options.dra_socket(NAME)) as plugin:
            await plugin.unprepare(claim)
        monkeypatch.setattr(kubelet_node.cluster.client, "get", refuse)
        await report(runner)
    assert not caplog.records


async def test_a_device_that_does_not_tell_any_more_has_no_report(kubelet_node: Node) -> None:
    class Silent(Metered):
        is_silent = False

        async def utilization(self) -> Sequence[DeviceUtilization]:
            return () if self.is_silent else await super().utilization()

    driver = Silent()
    async with kubelet_node.running(driver, **PROMPT) as runner:
        claim = await prepared(kubelet_node, runner, "lamp-0")
        await report(runner)
        driver.is_silent = True
        await report(runner)
        assert not list(reports_of(await stored(kubelet_node, claim)))
        assert gauge(runner, "dray_device_utilization_ratio", "lamp-0") is None


async def test_a_failing_driver_is_counted_and_asked_again(kubelet_node: Node) -> None:
    class Failing(Metered):
        asked = 0

        async def utilization(self) -> Sequence[DeviceUtilization]:
            self.asked += 1
            if self.asked == 1:
                return await super().utilization()
            raise OSError("no answer")

    driver = Failing()
    async with kubelet_node.running(driver, **{**PROMPT, "utilization_seconds": 0.01}) as runner:
        await kubelet_node.cluster.eventually(lambda: _twice(driver))
        labels: dict[str, Any] = {"driver_name": NAME, "part": "utilization"}
        assert (runner.metrics.registry.get_sample_value("dra_driver_background_errors_total", labels) or 0) >= 1
        # Metrics do not show what is not known any more.
        assert gauge(runner, "dray_device_utilization_ratio", "lamp-0") is None


async def _twice(driver: Any) -> bool:
    return bool(driver.asked > 2)
