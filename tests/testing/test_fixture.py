"""The pytest fixture, as a user's tests use it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dray.client.errors import ApiError
from dray.controllers.registry import CONTROLLERS
from dray.scheduling.scheduler import Options
from dray.testing.objects import claim_template, container, request
from dray.testing.objects import pod as made_pod
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
    with pytest.raises(AssertionError, match="after 0 s Pod p waits: PodScheduled is False: 0/1 nodes are available"):
        cluster.wait_until_gone("Pod", "p", within=0)


def test_a_kind_that_does_not_exist_is_told_with_the_closest_name(dray_cluster):
    cluster = dray_cluster(controllers=(), scheduler=None)
    with pytest.raises(LookupError, match="no kind 'Podd' is served; did you mean Pod"):
        cluster.list("Podd")


def test_pods_get_devices_of_a_fleet(dray_cluster):
    cluster = dray_cluster(fleet="p5.48xlarge=2")
    assert len(cluster.list("Node")) == 2
    cluster.apply(
        claim_template("eight", request(deviceClassName="gpu.nvidia.com", count=8)),
        *(made_pod(name, templates=["eight"]) for name in ("a", "b", "c")),
    )
    assert {cluster.wait_for("Pod", name, placed)["spec"]["nodeName"] for name in "ab"} == {
        "p5-48xlarge-0",
        "p5-48xlarge-1",
    }
    cluster.wait_for("Pod", "c", lambda pod: "needs 8" in str(pod["status"].get("conditions")))


def test_other_processes_reach_the_cluster(dray_cluster):
    cluster = dray_cluster(LAB)
    assert cluster.url.startswith("http://127.0.0.1:")
    assert cluster.url == cluster.url
    command = [sys.executable, "-c", "from dray.cli import main; main()", "get", "nodes", "-o", "name"]
    found = subprocess.run(
        [*command, "--kubeconfig", str(cluster.kubeconfig)], capture_output=True, text=True, timeout=60
    )
    assert found.stdout == "node/a\n", found.stderr


@pytest.fixture(scope="module")
def shared(dray_session_cluster):
    return dray_session_cluster(LAB)


@pytest.mark.parametrize("number", [1, 2])
def test_a_cluster_of_the_session_is_shared_by_tests(shared, number):
    shared.apply(f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m{number}}}}}")
    assert shared.get("Node", "a")


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


def test_pods_run_as_processes_of_this_machine(tmp_path):
    told = tmp_path / "told"
    # Kubernetes reads two dollar signs as one.
    command = ["sh", "-c", f"echo $$$$ > {told}; sleep 999"]
    with ThreadedCluster(node=True, scheduler=Options(), controllers=CONTROLLERS) as cluster:
        cluster.apply(made_pod("p", containers=[container("main", command=command)]))
        cluster.wait_for("Pod", "p", lambda pod: pod["status"].get("phase") == "Running")
        wait_for_file(told)
        process = Path(f"/proc/{told.read_text().strip()}")
        assert process.exists()
    assert not process.exists()


def wait_for_file(path, within=30):
    end = time.monotonic() + within
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.02)
