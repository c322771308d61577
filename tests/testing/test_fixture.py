"""The pytest fixture, as a user's tests use it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dray.client.errors import ApiError
from dray.testing.threaded import ThreadedCluster
from tests.cli.lab import CLASS, claim, gpus, node, pod, template

LAB = CLASS + node("a") + gpus("a", 2)


def placed(pod):
    return pod["spec"].get("nodeName")


def test_a_pod_gets_its_device_and_gives_it_back(dray_cluster):
    cluster = dray_cluster(LAB, template("one"))
    cluster.apply(pod("p", "resourceClaimTemplateName: one"))
    found = cluster.wait_for("Pod", "p", placed)
    assert found["spec"]["nodeName"] == "a"
    [made] = cluster.list("ResourceClaim")
    assert made["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    cluster.delete("Pod", "p")
    cluster.wait_until_gone("ResourceClaim", made["metadata"]["name"])


def test_objects_are_dicts_yaml_and_paths(dray_cluster, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/claim.yaml").write_text(claim("c"))
    cluster = dray_cluster(LAB, tmp_path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    assert cluster.get("ResourceClaim", "c")["spec"]["devices"]["requests"][0]["name"] == "gpu"
    assert cluster.get("ConfigMap", "m")
    assert cluster.get("ConfigMap", "other") is None
    cluster.apply(Path(tmp_path / "more/claim.yaml"))


def test_nodes_are_ready_when_they_are_given_and_when_they_are_applied(dray_cluster):
    cluster = dray_cluster(node("a"), controllers=())
    cluster.apply(node("b", '{capacity: {cpu: "1", memory: 1Gi, pods: "1"}}'))
    for name, cpu in (("a", "64"), ("b", "1")):
        found = cluster.get("Node", name)
        assert found["status"]["allocatable"]["cpu"] == cpu
        assert not found["spec"].get("taints")
        assert found["status"]["conditions"][0]["status"] == "True"


def test_parts_can_be_left_out(dray_cluster):
    cluster = dray_cluster(LAB, pod("p"), scheduler=None, controllers=())
    assert cluster.patch("Pod", "p", {"metadata": {"labels": {"a": "b"}}})["metadata"]["labels"] == {"a": "b"}
    time.sleep(0.1)
    assert "nodeName" not in cluster.get("Pod", "p")["spec"]


def test_waiting_in_vain_shows_the_reason(dray_cluster):
    cluster = dray_cluster(LAB, claim("three", 3), pod("p", "resourceClaimName: three"))
    cluster.wait_for("Pod", "p", lambda pod: pod["status"].get("conditions"))
    with pytest.raises(AssertionError, match="needs 3, 2 available"):
        cluster.wait_for("Pod", "p", placed, within=0.1)
    with pytest.raises(AssertionError, match="there is no Pod q"):
        cluster.wait_for("Pod", "q", within=0)
    with pytest.raises(AssertionError, match="Pod p is still"):
        cluster.wait_until_gone("Pod", "p", within=0)


def test_what_the_server_refuses_is_raised(dray_cluster):
    cluster = dray_cluster(controllers=(), scheduler=None)
    with pytest.raises(ApiError, match=r"metadata\.name"):
        cluster.apply(pod("UPPER"))


def test_a_cluster_that_cannot_start_leaves_nothing_behind():
    cluster = ThreadedCluster(controllers=["none"])
    left = []
    close = cluster._thread.loop.close
    cluster._thread.loop.close = lambda: (left.extend(asyncio.all_tasks(cluster._thread.loop)), close())
    with pytest.raises(KeyError):
        cluster.start()
    assert not left
    assert not cluster._thread.thread.is_alive()


def test_several_clusters_do_not_meet(dray_cluster):
    one, other = dray_cluster(node("a"), controllers=()), dray_cluster(controllers=())
    assert [each["metadata"]["name"] for each in one.list("Node")] == ["a"]
    assert not other.list("Node")


def test_the_plugin_costs_nothing_until_it_is_used():
    """pytest loads it in every project that has dray installed."""
    program = (
        "import sys; import dray.testing.fixtures; print([each for each in sys.modules if each.startswith('dray')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['dray', 'dray.testing', 'dray.testing.fixtures']"
