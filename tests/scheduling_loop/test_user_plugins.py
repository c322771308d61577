"""Plugins of users in the loop: condition, event, log and metrics name the one that fails."""

from prometheus_client import generate_latest

from dray.scheduling.core.guarded_plugin import UnloadedPlugin
from dray.scheduling.plugin import Depends, Plugin
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling_loop.readers import condition, events


class Broken(Plugin):
    depends_on = Depends.NODE

    def filter(self, cycle, node):
        raise ValueError("no such colour")


async def test_a_plugin_that_fails_is_named_everywhere_and_at_last_switched_off(caplog):
    options = Options(plugins=(Broken(),), unloaded_plugins=(UnloadedPlugin("lost:Plugin", "no such module"),))
    async with LocalCluster(scheduler=options, objects=[objects.node("n")]) as cluster:
        await cluster.create(gpus.pod("p"))

        async def is_bound():
            return (await cluster.get("Pod", "p"))["spec"].get("nodeName")

        async def is_told():
            pod = await cluster.get("Pod", "p")
            return pod if pod.get("status", {}).get("conditions") else None

        told = condition(await cluster.eventually(is_told))
        text = "node(s) on which plugin Broken failed (filter raised ValueError: no such colour)"
        assert (told["reason"], told["message"]) == ("SchedulerError", f"0/1 nodes are available: 1 {text}.")
        assert text in (await cluster.eventually(lambda: events(cluster, "FailedScheduling")))[0]["message"]
        cluster.plane.changed.clear()
        for number in range(9):
            await cluster.create(gpus.pod(f"q{number}"))
        await cluster.eventually(is_bound)
        assert cluster.plane.changed.is_set()
        assert cluster.plane.plugins() == {
            "lost:Plugin": "cannot be used: no such module",
            "Broken": "switched off: filter failed in 10 attempts one after the other; at last it raised"
            " ValueError: no such colour",
        }
        assert cluster.plane.obstacles() == []
        metrics = b"".join(map(generate_latest, cluster.plane.metrics())).decode()
    assert 'dray_scheduler_plugin_faults_total{kind="raised",method="filter",plugin="Broken"} 10.0' in metrics
    assert 'dray_scheduler_plugin_up{plugin="Broken"} 0.0' in metrics
    assert 'dray_scheduler_plugin_up{plugin="lost:Plugin"} 0.0' in metrics
    lines = [record.getMessage() for record in caplog.records if record.name == "dray.scheduler"]
    assert "plugin Broken: filter raised ValueError: no such colour" in lines
    assert any(line.startswith("plugin Broken is switched off: filter failed in 10 attempts") for line in lines)
    assert any(line.startswith("plugin lost:Plugin cannot be used") for line in lines)
