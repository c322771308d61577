"""The wall clock of a machine is set by hours while pods run on it."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from dray.client.clock import SystemTime, timestamp
from dray.node.container_records import ContainerRecord
from dray.node.health_cache import HEALTHY, DeviceHealth, HealthCache
from dray.node.pod_objects import PodObjects
from dray.node.server.usage import UsageMeter
from dray.testing.cluster import LocalCluster
from tests.node.machines import Machine, pod, restarts, shell
from tests.set_clock import SetTime

PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1}


@pytest.fixture
async def time():
    return SetTime()


@pytest.fixture
async def machine(tmp_path, time):
    async with LocalCluster(controllers=["serviceaccount"]) as cluster:
        machine = Machine(cluster, tmp_path)
        await machine.start(time=time)
        yield machine
        await machine.stop()
        await machine.clean()


@pytest.mark.parametrize("hours", [5, -5])
async def test_pods_go_on_when_the_clock_is_set_and_end_in_time(machine, time, hours):
    await machine.cluster.create(pod("long", shell("sleep 1000", livenessProbe=PROBE), activeDeadlineSeconds=3600))
    await machine.cluster.create(pod("short", shell("sleep 1000"), activeDeadlineSeconds=4, restartPolicy="Never"))
    for name in ("long", "short"):
        await machine.phase(name, "Running")
    time.set(hours=hours)
    failed = await machine.phase("short", "Failed")
    assert failed["status"]["reason"] == "DeadlineExceeded"
    found = await machine.cluster.get("Pod", "long")
    assert (found["status"]["phase"], restarts(found)) == ("Running", 0)
    # Its grace period is as long as ever: it obeys at once, and is not killed at once.
    await machine.cluster.delete("Pod", "long", grace=None)
    await machine.until("long", None)


async def test_a_container_that_fails_waits_as_long_as_ever_when_the_clock_was_set_back(machine, time, monkeypatch):
    monkeypatch.setattr(ContainerRecord, "backoff", lambda self: 0.2 if self.failures > 1 else 0.0)
    await machine.cluster.create(pod("p", shell("sleep 0.3; exit 1")))
    await machine.until("p", lambda found: restarts(found) >= 1)
    time.set(hours=-5)
    await machine.until("p", lambda found: restarts(found) >= 4)


def test_reports_of_health_hold_for_their_time():
    cache = HealthCache()
    cache.update("gpu", [DeviceHealth("pool", "gpu-0", HEALTHY, 30.0)], 1_000_000.0)
    assert cache.health("gpu", "pool", "gpu-0", 1_000_029.0) is not None
    assert cache.health("gpu", "pool", "gpu-0", 1_000_031.0) is None
    # What an agent kept before the clock was set back by hours.
    assert cache.health("gpu", "pool", "gpu-0", 1_000_000.0 - 3600) is None


def test_rates_of_usage_do_not_depend_on_the_wall_clock():
    clocks = SimpleNamespace(wall=1_000_000.0, steady=100.0)
    meter = UsageMeter(None, wall=lambda: clocks.wall, steady=lambda: clocks.steady)
    meter._kept = {"c": [(clocks.steady, 0)]}
    for jump in (0, -5 * 3600, 10 * 3600):
        clocks.wall += 10 + jump
        clocks.steady = 110.0
        assert meter._rated("c", 999_000.0, 5_000_000_000, 0).nano_cores == 500_000_000
    assert meter._rated("new", clocks.wall + 3600, 2_000_000_000, 0).nano_cores <= 2_000_000_000


class Issuer:
    """A server whose clock is right; it counts the tokens that it gives."""

    count = 0

    async def create(self, *_, **__):
        self.count += 1
        expires = timestamp(SystemTime().now() + timedelta(seconds=600))
        return {"status": {"token": str(self.count), "expirationTimestamp": expires}}


@pytest.mark.parametrize("hours", [5, -5])
async def test_tokens_are_renewed_in_time_whatever_the_clock_of_the_machine_says(time, hours):
    objects = PodObjects(Issuer(), time)
    passed = [0.0]
    objects._steady = lambda: passed[0]
    given = pod("p", shell("true"))
    given["metadata"]["uid"] = "uid"
    assert await objects.token(given, "", 600) == "1"
    time.set(hours=hours)
    passed[0] = 400.0
    assert await objects.token(given, "", 600) == "1"
    passed[0] = 500.0
    assert await objects.token(given, "", 600) == "2"
    # A clock that is behind makes this one look as if it lived for hours; one that is ahead, as if it had ended.
    passed[0] = 1000.0
    assert await objects.token(given, "", 600) == "3"
