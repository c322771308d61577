"""`dray plan` as its users see it."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from dray.answers.cluster import Cluster
from dray.answers.snapshots import take_snapshot
from tests.cli.lab import CLASS, claim, pod, template
from tests.cli.running import DRAY
from tests.cli.test_explain_live import Server
from tests.server.process import listening

Dray = Callable[..., Result]
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 8}}]}}}
---
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]
      containers: [{name: main, image: busybox, resources: {claims: [{name: gpu}]}}]
---
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "web.yaml").write_text(CLAIM + DEPLOYMENT)
    return str(tmp_path / "web.yaml")


def test_a_plan_for_a_fleet_has_devices_cost_and_a_status(run: Dray, file: str) -> None:
    fits = run("plan", "-f", file, "--fleet", "p5.48xlarge=2", "--price", "p5.48xlarge=55")
    assert fits.exit_code == 0
    assert "pod default/web-0: on node p5-48xlarge-0\n" in fits.stdout
    assert ", gpu: gpu.nvidia.com/p5-48xlarge-1/gpu-0, gpu-1, gpu-2, gpu-3" in fits.stdout
    assert "cost: 110.00 an hour\n2 of 2 pods fit\n" in fits.stdout
    change = run("plan", "-f", file, "--fleet", "p5.48xlarge=1")
    assert change.exit_code == 3
    assert "1 of 2 pods fit; each of these changes helps:" in change.stdout
    assert "  add 1 p5.48xlarge\n" in change.stdout
    added = run("plan", "-f", file, "--fleet", "p5.48xlarge=1", "--add", "1xp5.48xlarge", "--price", "p5.48xlarge=55")
    assert added.exit_code == 0
    assert "added machines: 55.00 an hour" in added.stdout
    nothing = run("plan", "-f", file, "--fleet", "cpu-64=1", "--seconds", "0")
    assert nothing.exit_code == 1
    assert nothing.stdout.endswith("\n0 of 2 pods fit\n")
    tried = run("plan", "-f", file, "--fleet", "cpu-64=1")
    assert tried.exit_code == 1
    assert "tried, and none helps by itself\n" in tried.stdout


def test_prices_of_own_machine_types_count_by_the_share_of_the_machine(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text(
        "apiVersion: fleet.dray.dev/v1alpha1\nkind: MachineType\nname: box\ncpus: 8\nmemory: 32Gi\nhourlyPrice: 8\n"
        'gpus:\n- model: l4\n  slots: [{address: "0000:3b:00.0"}, {address: "0000:3c:00.0"}]\n'
    )
    pods = CLAIM.replace("count: 8", "count: 1") + pod("p", "resourceClaimTemplateName: gpus")
    (tmp_path / "p.yaml").write_text(pods + pod("q").replace("image: i", 'image: i, resources: {requests: {cpu: "2"}}'))
    made = run("plan", "-f", str(tmp_path / "p.yaml"), "--fleet", str(tmp_path / "box.yaml"), "--fleet", "box=1")
    assert made.exit_code == 0, made.output
    assert "cost: 6.00 an hour" in made.stdout


def test_the_document_of_a_plan(run: Dray, file: str) -> None:
    made = json.loads(run("plan", "-f", file, "--fleet", "p5.48xlarge=1", "-o", "json").stdout)
    assert (made["apiVersion"], made["kind"], made["verdict"]) == ("plan.dray.dev/v1alpha1", "Plan", "FitsWithChange")
    first, second = made["pods"]
    assert (first["node"], len(first["devices"])) == ("p5-48xlarge-0", 8)
    assert first["devices"][0]["device"] == "gpu-0"
    assert second["fits"] is False
    assert "cannot allocate all claims" in second["reason"]
    assert {"type": "AddMachines", "description": "add 1 p5.48xlarge", "evictions": []} in made["suggestions"]


def test_wrong_options_and_files_are_named(run: Dray, file: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(CLAIM.replace("count: 8", "count: many"))
    for arguments, told in (
        (("-f", str(tmp_path / "bad.yaml")), "bad.yaml:5:"),
        (("--drain", "p5-48xlarge-7"), "node p5-48xlarge-7 not found"),
        (("--without", "p5-48xlarge-0/gpu-9"), "device p5-48xlarge-0/gpu-9 not found"),
        (("--quota", "team"), "write QUEUE=RESOURCE:AMOUNT"),
        (("--price", "p5.48xlarge"), "write TYPE=AMOUNT"),
        (("--price", "p5.48xlarge=nan"), "write TYPE=AMOUNT"),
        (("--price", "=4"), "write TYPE=AMOUNT"),
        (("--seconds", "nan"), "give a number from 0 to 3600"),
        (("--seconds", "inf"), "give a number from 0 to 3600"),
        (("--seconds", "-1"), "give a number from 0 to 3600"),
        (("--quota", "team=gpu:-1"), "queue team not found"),
        (("--add", "0xp5.48xlarge"), "adds no machine"),
        (("--add", "9" * 5000), "there is no machine type '9"),
        (("--add", "9" * 5000 + "xp5.48xlarge"), "10,000 machines at most"),
        (("--add", "4xp5.48xlarg"), "did you mean p5.48xlarge?"),
        (("--snapshot", file), "leave --snapshot"),
    ):
        result = run("plan", "-f", file, "--fleet", "p5.48xlarge=1", *arguments)
        assert result.exit_code == 2, arguments
        assert told in result.stderr, result.stderr


@pytest.fixture
def server(run: Dray, tmp_path: Path) -> Iterator[Server]:
    with listening(kubeconfig=tmp_path / "kubeconfig"):
        made = Server(run, tmp_path / "kubeconfig")
        made.apply(CLASS + template("one") + claim("c1") + pod("old", "resourceClaimName: c1", nodeName="a"))
        made.node("a", 2)
        made.node("b", 1)
        made.hold("c1", "old", "a", "gpu-0")
        yield made


def test_a_plan_for_a_cluster_is_that_for_its_snapshot_and_writes_nothing(
    run: Dray, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text("".join(pod(f"p{n}", "resourceClaimTemplateName: one") for n in range(3)))
    before = server.printed("get", "pods,resourceclaims,nodes", "-o", "json")
    snapshot = server.snapshot()
    for arguments in (("-f", str(tmp_path / "p.yaml")), ("--drain", "a"), ("--without", "b/gpu-0")):
        live = run("plan", *arguments, "--kubeconfig", str(tmp_path / "kubeconfig"))
        again = run("plan", *arguments, "--snapshot", snapshot)
        assert (again.exit_code, again.output) == (live.exit_code, live.output)
    assert server.printed("get", "pods,resourceclaims,nodes", "-o", "json") == before
    placed = run("plan", "-f", str(tmp_path / "p.yaml"), "--snapshot", snapshot).stdout
    assert "2 of 3 pods fit" in placed
    drained = run("plan", "--drain", "a", "--snapshot", snapshot).stdout
    assert "pod default/old on node a: evicted: node a is drained; nobody creates it again" in drained


def test_examples_of_groups_can_be_planned(run: Dray) -> None:
    job = run("plan", "-f", "examples/groups/job.yaml", "--fleet", "a3-highgpu-8g=3", "-o", "json")
    assert job.exit_code == 3
    made = json.loads(job.stdout)
    assert {each["group"]["kind"] for each in made["pods"]} == {"PodGroup"}
    assert not any(each["fits"] for each in made["pods"])
    queued = run("plan", "-f", "examples/groups/queues.yaml", "--fleet", "p5.48xlarge=4", "--seconds", "0")
    assert queued.exit_code in (0, 1), queued.output


def test_changes_are_tried_in_copies_of_a_process_of_its_own(file: str) -> None:
    command = [*DRAY, "plan", "-f", file, "--fleet", "p5.48xlarge=1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (3, "")
    assert "  start 1 instead of 2 pods\n  add 1 p5.48xlarge\n" in result.stdout


def test_misspelt_names_are_told_with_the_right_one(run: Dray, file: str, tmp_path: Path) -> None:
    text = Path(file).read_text()
    fleet = ("--fleet", "p5.48xlarge=2")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text.replace("deviceClassName: gpu.nvidia.com", "deviceClassName: gpu.nvidia.co"))
    planned = run("plan", "-f", str(wrong), *fleet)
    assert planned.exit_code == 3
    assert "request class gpu.nvidia.com instead of gpu.nvidia.co" in planned.stdout
    wrong.write_text("apiVersion: batch/v1\nkind: Jobb\nmetadata: {name: a}\n")
    refused = run("plan", "-f", str(wrong), *fleet)
    assert refused.exit_code == 2
    assert "wrong.yaml:2:1: Jobb a: there is no kind Jobb in batch/v1; did you mean Job?" in refused.stderr


def test_a_server_that_refuses_a_list_is_no_plan_that_does_not_fit(run: Dray, file: str, tmp_path: Path) -> None:
    machines = Cluster.from_fleet("p5.48xlarge=1")
    whole = take_snapshot(tmp_path / "whole", machines)
    header, *objects = gzip.decompress(whole.read_bytes()).splitlines()
    told = json.loads(header)
    refusal = {"status": 403, "reason": "Forbidden", "message": "pods is forbidden"}
    told["kinds"] = [{**each, "refusal": refusal} if each["plural"] == "pods" else each for each in told["kinds"]]
    part = tmp_path / "part"
    part.write_bytes(gzip.compress(b"\n".join([json.dumps(told).encode(), *objects])))
    result = run("plan", "-f", file, "--snapshot", str(part))
    assert (result.exit_code, "pods is forbidden" in result.stderr) == (2, True)
