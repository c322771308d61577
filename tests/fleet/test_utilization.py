"""Utilization of GPUs on simulated nodes, in the claims of their pods."""

import pytest

from dray.api.device_utilization import reports_of
from dray.drivers.simulated.utilization import ANNOTATION, simulated_ratio
from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal


async def reported(cluster, name):
    claim = await cluster.get("ResourceClaim", name)
    return [(each.percent, each.memory_used, bool(each.idle_since)) for _, each in reports_of(claim)]


async def test_claims_of_running_pods_have_a_report(virtual_time):
    async with Rehearsal("a3-highgpu-8g=1").going() as cluster:
        wanted = objects.request(deviceClassName="gpu.nvidia.com", count=2)
        idle = objects.pod("idle", claims=["other"], annotations={ANNOTATION: "2"})
        await cluster.create(objects.claim("shared", wanted), objects.claim("other", wanted))
        await cluster.create(objects.pod("busy", claims=["shared"]), idle)

        async def busy():
            return await reported(cluster, "shared") == [(80, 81559 * 2**20 * 80 // 100, False)] * 2

        await cluster.until(busy)

        async def is_idle():
            return [each[::2] for each in await reported(cluster, "other")] == [(2, True)] * 2

        await cluster.until(is_idle)
        await cluster.delete("Pod", "busy")

        async def withdrawn():
            return not await reported(cluster, "shared")

        await cluster.until(withdrawn)


@pytest.mark.parametrize(
    ("text", "ratio"), [("", 0.8), ("35", 0.35), ("0", 0), ("none", 0.8), ("-5", 0.8), ("140", 0.8)]
)
def test_the_annotation_sets_the_utilization(text, ratio):
    assert simulated_ratio({ANNOTATION: text}, "p", 1) == ratio


def test_a_range_changes_every_minute_and_is_the_same_in_every_run():
    found = [simulated_ratio({ANNOTATION: "10-60"}, "p", minute) for minute in range(20)]
    assert found == [simulated_ratio({ANNOTATION: "10-60"}, "p", minute) for minute in range(20)]
    assert len(set(found)) == 20
    assert all(0.1 <= each <= 0.6 for each in found)
