"""Groups of each front end on `dray up` with a fleet: the manifests of `examples/groups`, from applying to running.

One cluster serves all tests; each deletes what it made.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dray.cli import main
from tests.cli.running import eventually, running
from tests.cli.test_up import wait

EXAMPLES = Path(__file__).parents[2] / "examples"
GROUPS = EXAMPLES / "groups"
RACK = "fabric.topograph.run/tier-0"
ROOT = "resource.kubernetes.io/pcieRoot"


class Cluster:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        result = CliRunner().invoke(main, [*arguments, "--kubeconfig", str(self._kubeconfig)], input=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def explain(self, *arguments: str) -> str:
        """Whatever the status says."""
        return CliRunner().invoke(main, ["explain", *arguments, "--kubeconfig", str(self._kubeconfig)]).output

    def all(self, kind: str) -> list[Any]:
        found = json.loads(self.run("get", kind, "-o", "json"))["items"]
        assert isinstance(found, list)
        return found

    def running(self) -> list[Any]:
        return [each for each in self.all("pods") if each.get("status", {}).get("phase") == "Running"]

    def devices(self) -> dict[tuple[str, str, str], Any]:
        return {
            (each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"]): device
            for each in self.all("resourceslices")
            for device in each["spec"].get("devices") or ()
        }

    def held(self) -> dict[str, list[tuple[str, str, str]]]:
        """What each claim holds."""
        found = {}
        for each in self.all("resourceclaims"):
            results = each.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or ()
            found[each["metadata"]["name"]] = [(one["driver"], one["pool"], one["device"]) for one in results]
        return found

    def delete(self, *names: str) -> None:
        """All objects of manifests, and what was made for them."""
        self.run("delete", *(part for name in names for part in ("-f", str(GROUPS / name))))
        eventually(lambda: not self.all("pods") and not self.all("resourceclaims"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("groups")
    arguments = ("up", "--port", "0", "--plain", "--data", "data", "--fleet", str(EXAMPLES / "fleet/racks.yaml"))
    with running(*arguments, cwd=folder) as process:
        wait(process)
        yield Cluster(folder / "data/kubeconfig")


@pytest.mark.parametrize("manifest", ["job.yaml", "coscheduling.yaml", "kueue.yaml"])
def test_eight_workers_get_four_gpus_of_one_root_and_its_nic(cluster: Cluster, manifest: str) -> None:
    cluster.run("apply", "-f", str(GROUPS / manifest))
    eventually(lambda: len(cluster.running()) == 8)
    check_alignment(cluster)
    ranks = {pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: pod for pod in cluster.running()}
    # Neighbours are on one machine.
    for rank in range(0, 8, 2):
        assert ranks[str(rank)]["spec"]["nodeName"] == ranks[str(rank + 1)]["spec"]["nodeName"]
    cluster.delete(manifest)


def check_alignment(cluster: Cluster) -> None:
    devices, held = cluster.devices(), cluster.held()
    assert len(held) == 8
    for each in held.values():
        assert Counter(driver for driver, _, _ in each) == {"gpu.nvidia.com": 4, "dra.net": 1}
        assert len({pool for _, pool, _ in each}) == 1
        assert len({json.dumps(devices[one]["attributes"][ROOT]) for one in each}) == 1
    taken = [one for each in held.values() for one in each]
    assert len(set(taken)) == len(taken)


def test_sub_groups_of_kai_are_each_in_a_rack(cluster: Cluster) -> None:
    cluster.run("apply", "-f", str(GROUPS / "kai.yaml"))
    eventually(lambda: len(cluster.running()) == 8)
    check_alignment(cluster)
    for name in ("actors", "learners"):
        pods = [each for each in cluster.running() if each["metadata"]["name"].startswith(name)]
        assert len({pod["spec"]["nodeName"][:5] for pod in pods}) == 1
    cluster.delete("kai.yaml")


def test_pods_with_kueues_label_of_a_group(cluster: Cluster) -> None:
    """They wait for each other: the last one to come starts all."""
    queues, _, rest = (GROUPS / "kueue.yaml").read_text().partition("apiVersion: batch/v1")
    spec = rest[rest.index("      restartPolicy") :].replace("\n    ", "\n")[4:]
    pod = """
apiVersion: v1
kind: Pod
metadata:
  name: w%d
  labels: {kueue.x-k8s.io/queue-name: research, kueue.x-k8s.io/pod-group-name: g}
  annotations: {kueue.x-k8s.io/pod-group-total-count: "8"}
spec:
"""
    cluster.run("apply", "-f", "-", stdin=queues + "---".join(pod % number + spec for number in range(7)))
    eventually(lambda: len(cluster.held()) == 7)
    assert not cluster.running()
    cluster.run("apply", "-f", "-", stdin=pod % 7 + spec)
    eventually(lambda: len(cluster.running()) == 8)
    check_alignment(cluster)
    cluster.run("delete", "pod", *(f"w{number}" for number in range(8)))
    cluster.run("delete", "-f", "-", stdin=queues)
    eventually(lambda: not cluster.all("pods") and not cluster.all("resourceclaims"))


def test_a_gang_shares_the_partition_of_its_rack(cluster: Cluster) -> None:
    cluster.run("apply", "-f", str(GROUPS / "native.yaml"))
    eventually(lambda: len(cluster.running()) == 4)
    racks = {node["metadata"]["name"]: node["metadata"]["labels"][RACK] for node in cluster.all("nodes")}
    assert {racks[pod["spec"]["nodeName"]] for pod in cluster.running()} == {"rack7"}
    claims = {claim["metadata"]["name"]: claim for claim in cluster.all("resourceclaims")}
    assert len(claims) == 5
    (shared,) = (claim for name, claim in claims.items() if name.startswith("train-fabric"))
    assert [each["resource"] for each in shared["status"]["reservedFor"]] == ["podgroups"]
    (group,) = cluster.all("podgroups.scheduling.k8s.io")
    assert [(each["type"], each["status"]) for each in group["status"]["conditions"]] == [
        ("PodGroupInitiallyScheduled", "True")
    ]
    cluster.delete("native.yaml")


def racks_of(cluster: Cluster, *labels: str) -> list[tuple[str, str]]:
    """Rack and machine of the pods of a Job, in the order of their indexes."""
    racks = {node["metadata"]["name"]: node["metadata"]["labels"][RACK] for node in cluster.all("nodes")}
    found = {}
    for pod in cluster.running():
        said = pod["metadata"]["labels"]
        if said["batch.kubernetes.io/job-name"] in labels:
            place = pod["spec"]["nodeName"]
            found[int(said["batch.kubernetes.io/job-completion-index"])] = (racks[place], place)
    return [found[index] for index in sorted(found)]


@pytest.mark.parametrize(
    ("manifest", "names", "number"),
    [("composite.yaml", ("prefill", "decode"), 8), ("kai-subgroups.yaml", ("first", "second"), 4)],
)
def test_each_group_of_a_tree_in_one_rack(cluster: Cluster, manifest: str, names: tuple[str, str], number: int) -> None:
    cluster.run("apply", "-f", str(GROUPS / manifest))
    eventually(lambda: len(cluster.running()) == number)
    for name in names:
        assert len({rack for rack, _ in racks_of(cluster, name)}) == 1
    cluster.delete(manifest)


def test_slices_of_a_job_in_racks_and_on_machines(cluster: Cluster) -> None:
    cluster.run("apply", "-f", str(GROUPS / "kueue-topology.yaml"))
    eventually(lambda: len(cluster.running()) == 8)
    found = racks_of(cluster, "sliced-training")
    assert all(found[n] == found[n + 1] for n in range(0, 8, 2))
    assert len({rack for rack, _ in found[:4]}) == 1
    cluster.delete("kueue-topology.yaml")


def test_a_gang_is_on_machines_of_one_rank(cluster: Cluster) -> None:
    text = (GROUPS / "compute-class.yaml").read_text()
    cluster.run("apply", "-f", "-", stdin=text)
    eventually(lambda: len(cluster.running()) == 4)
    assert {pod["spec"]["nodeName"][:5] for pod in cluster.running()} == {"rack6"}
    cluster.delete("compute-class.yaml")
    # Six of them are on both racks: no rank has room for all.
    cluster.run("apply", "-f", "-", stdin=text.replace(": 4\n  parallelism: 4", ": 6\n  parallelism: 6"))
    eventually(lambda: len(cluster.running()) == 6)
    assert {pod["spec"]["nodeName"][:5] for pod in cluster.running()} == {"rack6", "rack7"}
    cluster.delete("compute-class.yaml")


def test_a_gang_that_lacks_a_root_starts_nobody_and_says_so_once(cluster: Cluster) -> None:
    """One NIC is taken: seven of eight would fit."""
    cluster.run("apply", "-f", "-", stdin=ONE_ROOT)
    eventually(lambda: len(cluster.running()) == 1)
    cluster.run("apply", "-f", str(GROUPS / "coscheduling.yaml"))

    def told() -> list[Any]:
        events = [each for each in cluster.all("events") if each["reason"] == "FailedScheduling"]
        return [each for each in events if each["involvedObject"]["kind"] == "PodGroup"]

    (event,) = eventually(told)
    assert "8 pods have to be placed together, but only 7 fit" in event["message"]
    assert len(cluster.running()) == 1
    assert sum(map(bool, cluster.held().values())) == 1
    cluster.run("delete", "pod", "alone")
    eventually(lambda: len(cluster.running()) == 8)
    # It changed its mind no more than twice: no place, then a place.
    (event,) = told()
    assert event.get("count", 1) == 1
    cluster.run("delete", "resourceclaimtemplate", "alone")
    cluster.delete("coscheduling.yaml")


@pytest.mark.parametrize(
    ("manifest", "before", "after", "queue"),
    [
        ("kueue.yaml", "nominalQuota: 32", "nominalQuota: 31", "ClusterQueue research"),
        ("kai.yaml", "limit: 32", "limit: 31", "Queue lab"),
    ],
)
def test_a_gang_beyond_its_queue_waits_as_a_whole(
    cluster: Cluster, manifest: str, before: str, after: str, queue: str
) -> None:
    text = (GROUPS / manifest).read_text()
    cluster.run("apply", "-f", "-", stdin=text.replace(before, after))

    def told() -> list[Any]:
        events = [each for each in cluster.all("events") if each["reason"] == "FailedScheduling"]
        group = [each for each in events if each["involvedObject"]["kind"] != "Pod"]
        return [each for each in group if queue in each["message"]]

    (event,) = eventually(told)
    assert event["involvedObject"]["kind"] in ("PodGroup", "Job")
    assert not any(cluster.held().values())
    pod = cluster.all("pods")[0]["metadata"]["name"]
    said = cluster.explain("pod", pod)
    assert re.search(rf"queue: .*{queue}", said)
    assert "devices and nodes: all pods that start together fit" in said
    assert "next: group default/" in cluster.run("queue", queue.split()[1])
    cluster.run("apply", "-f", "-", stdin=text)
    eventually(lambda: len(cluster.running()) == 8)
    assert [each.get("count", 1) for each in told()] == [1]
    cluster.delete(manifest)


ONE_ROOT = """
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec:
  resourceClaims: [{name: devices, resourceClaimTemplateName: alone}]
  containers: [{name: main, image: busybox, resources: {claims: [{name: devices}]}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: alone}
spec:
  spec:
    devices:
      requests:
      - {name: nic, exactly: {deviceClassName: dra.net}}
"""
