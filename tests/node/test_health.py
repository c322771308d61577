"""Device health: from the driver's stream into the status of pods, kept across restarts, Unknown when it is old."""

import asyncio
import contextlib
import json

import pytest

from dray._proto import kubelet_pb2 as messages
from dray.node.health_cache import HEALTHY, UNHEALTHY, DeviceHealth, HealthCache
from tests.damage import DAMAGES

from .clusters import bound_pod, kubelet_on_cluster
from .scripted_driver import BOTH, DRIVER, scripted_driver

VERSIONS = (*BOTH, "v1.DRAResourceHealth")


def report(health, message="", timeout=30, device="gpu-0"):
    identity = messages.DeviceIdentifier(pool_name="worker", device_name=device)
    entry = messages.DeviceHealth(device=identity, health=health, message=message, health_check_timeout_seconds=timeout)
    return messages.NodeWatchResourcesResponse(devices=[entry])


@contextlib.asynccontextmanager
async def pod_with_a_device():
    """A kubelet with a pod, and the queue of what its driver reports."""
    async with (
        kubelet_on_cluster() as (cluster, kubelet),
        scripted_driver(kubelet.root, versions=VERSIONS) as driver,
    ):
        driver.reports = asyncio.Queue()
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "c")
        await kubelet.try_pod("p")
        yield kubelet, driver.reports


async def shown(kubelet, expected):
    """Waits until the pod's status shows this of its one device."""

    async def holds():
        pod = await kubelet.report_pod("p")
        [container] = pod["status"]["containerStatuses"]
        [status] = container["allocatedResourcesStatus"]
        assert status["name"] == "claim:claim-0"
        [resource] = status["resources"]
        return resource == {"resourceID": "example.com/gpu=c", **expected}

    await kubelet.eventually(holds, str(expected))


async def test_health_reaches_the_status_of_the_pod_and_goes_with_the_stream():
    async with pod_with_a_device() as (kubelet, reports):
        await shown(kubelet, {"health": "Unknown"})
        reports.put_nowait(report(messages.HEALTHY))
        await shown(kubelet, {"health": "Healthy"})
        reports.put_nowait(report(messages.UNHEALTHY, "x" * 2000))
        await shown(kubelet, {"health": "Unhealthy", "message": "x" * 1021 + "..."})
        reports.put_nowait(None)
        await shown(kubelet, {"health": "Unknown"})
        reports.put_nowait(report(messages.HEALTHY))
        await shown(kubelet, {"health": "Healthy"})


async def test_a_device_that_is_not_reported_in_time_is_unknown():
    async with pod_with_a_device() as (kubelet, reports):
        reports.put_nowait(report(messages.HEALTHY, timeout=1))
        await shown(kubelet, {"health": "Healthy"})
        reports.put_nowait(report(messages.HEALTHY, device="other"))
        await shown(kubelet, {"health": "Unknown"})


def healthy(device, **members):
    return DeviceHealth("pool", device, HEALTHY, 30.0, **members)


def test_only_changes_are_told():
    cache = HealthCache()
    assert cache.update("d", [healthy("a"), healthy("b")], 0.0) == {("pool", "a"), ("pool", "b")}
    assert cache.update("d", [healthy("a")], 10.0) == set()
    assert cache.update("d", [DeviceHealth("pool", "a", UNHEALTHY, 30.0)], 11.0) == {("pool", "a")}
    assert cache.update("d", [healthy("b", message="hot")], 12.0) == {("pool", "b")}


def test_a_report_holds_until_its_timeout():
    cache = HealthCache()
    cache.update("d", [healthy("a")], 0.0)
    cache.update("d", [healthy("b")], 20.0)
    assert cache.health("d", "pool", "a", 30.0).health == HEALTHY
    assert cache.health("d", "pool", "a", 30.1) is None
    assert cache.expire(30.1) == {"d": {("pool", "a")}}
    assert cache.health("d", "pool", "b", 30.1).health == HEALTHY
    assert cache.drop("d") == {("pool", "b")}


def test_a_driver_cannot_fill_the_memory(monkeypatch):
    monkeypatch.setattr("dray.node.health_cache.MAX_DEVICES", 2)
    cache = HealthCache()
    assert len(cache.update("d", [healthy(name) for name in "abc"], 0.0)) == 2
    assert cache.health("d", "pool", "c", 0.0) is None
    assert cache.update("d", [healthy("a", message="still taken")], 0.0)


def test_health_survives_a_restart(tmp_path):
    path = tmp_path / "dra_health_state"
    HealthCache(path).update("d", [healthy("a", message="m")], 1_700_000_000.25)
    assert HealthCache(path).health("d", "pool", "a", 1_700_000_010.0) == healthy(
        "a", message="m", updated=1_700_000_000.25
    )


REPORT = {"PoolName": "p", "DeviceName": "a", "Health": "Healthy", "LastUpdated": "2026-01-01T00:00:00Z"}
TOO_LONG = json.dumps({"d": {"Devices": {"a": {**REPORT, "HealthCheckTimeout": 10**400}}}}).encode()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"d": {"Devices": {"a": 1}}}', TOO_LONG])
def test_a_state_that_cannot_be_read_is_passed_over(tmp_path, content):
    path = tmp_path / "dra_health_state"
    path.write_bytes(content)
    assert HealthCache(path).expire(0.0) == {}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_state_that_was_replaced_is_passed_over_and_reports_are_still_taken(tmp_path, damage, caplog):
    path = tmp_path / "dra_health_state"
    HealthCache(path).update("d", [healthy("a")], 1.0)
    DAMAGES[damage](path)
    cache = HealthCache(path)
    assert f"device health in {path} is not used" in caplog.text
    assert cache.update("d", [healthy("b")], 1.0) == {("pool", "b")}
