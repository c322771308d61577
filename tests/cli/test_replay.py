"""`dray replay` on small traces."""

import gzip
import json
import re

import pytest
from click.testing import CliRunner

from dray.cli.replay import replay
from dray.replay import reports
from dray.replay.runs import Run, Sample

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,32768,2,T4\nb,8000,32768,2,T4\n"
TASKS = "cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n" + "1000,1024,1,500,1,9\n" * 4


def played(tmp_path, *arguments, tasks=TASKS):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "tasks.csv").write_text(tasks)
    return CliRunner().invoke(replay, [str(tmp_path / "tasks.csv"), "--nodes", str(tmp_path / "nodes.csv"), *arguments])


def test_policies_are_shown_side_by_side(tmp_path):
    plot = tmp_path / "plot.svg"
    result = played(tmp_path, "--seeds", "2", "--plot", str(plot))
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.split("\n\n")[0].splitlines()] == ["POLICY", "kubernetes", "pack"]
    assert plot.read_text().startswith("<svg")


def test_a_plot_in_virtual_time_has_steps():
    """Between two events nothing changes."""
    run = Run("pack", 1, 1000, curve=[Sample(0, 50, 0, 0, 0), Sample(3600, 100, 0, 0, 0)])
    (line,) = re.findall(r'points="([^"]*)"[^>]*stroke-width="2"', reports.plot([run], timed=True))[:1]
    heights = [point.split(",")[1] for point in line.split()]
    assert heights[0] == heights[1] != heights[2]


@pytest.mark.parametrize("option", ["--plot", "--record"])
def test_a_file_that_cannot_be_written_is_refused_before_the_replay(tmp_path, option):
    result = played(tmp_path, option, str(tmp_path / "missing" / "file"))
    assert result.exit_code == 2
    assert "no such folder" in result.output


def test_virtual_time_reports_waiting_times(tmp_path):
    result = played(tmp_path, "--time", "--policy", "pack", "-o", "json")
    (run,) = json.loads(result.stdout)["runs"]
    assert (run["placed"], run["waitSeconds"]) == (4, {"median": 0, "p95": 0})


def test_load_and_seeds_without_an_effect_are_noted(tmp_path):
    assert "note: --load and --seeds" in played(tmp_path, "--time", "--load", "80", "--policy", "pack").stderr
    assert "note" not in played(tmp_path, "--time", "--policy", "pack").stderr


def test_a_file_without_the_columns_is_an_error(tmp_path):
    result = played(tmp_path, tasks="x\n1\n")
    assert result.exit_code == 2
    assert "column cpu_milli not found" in result.output


def test_random_partitions_are_refused_if_they_do_not_fit(tmp_path):
    arguments = ["--random-profiles", "1g.10gb=1,4g.40gb=1", "--fleet", "a3-highgpu-1g:mig=3", "--tasks", "40"]
    policies = ["--policy", "first-fit", "--policy", "pack"]
    result = CliRunner().invoke(replay, [*arguments, *policies, "--load", "150", "-o", "json"])
    first, packed = json.loads(result.stdout)["runs"]
    assert (first["policy"], packed["policy"]) == ("first-fit", "pack")
    for run in (first, packed):
        assert run["placed"] + run["refused"] == 40
        assert run["refusedByReason"] == {"CannotAllocate": run["refused"]}


def test_random_partitions_fill_an_empty_cluster():
    asked = ["--random-profiles", "7g.80gb", "--fill", "--load", "150", "--fleet", "a3-highgpu-1g:mig=4"]
    result = CliRunner().invoke(replay, [*asked, "--policy", "pack", "-o", "json"])
    document = json.loads(result.stdout)
    (run,) = document["runs"]
    assert (document["virtualTime"], run["placed"], run["refused"]) == (False, 4, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--random-profiles", "all", "--fill", "--tasks", "5"], "--fill"),
        (["--random-profiles", "all", "--fill", "--no-wait"], "--fill"),
        (["tasks.csv", "--tasks", "5"], "--tasks are for --random-profiles"),
        (["tasks.csv", "--fill"], "are for --random-profiles"),
    ],
)
def test_options_without_an_effect_are_refused(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.csv").write_text("device_class\n")
    result = CliRunner().invoke(replay, [*arguments, "--fleet", "a3-highgpu-1g:mig=4"])
    assert result.exit_code == 2
    assert message in result.output


def test_a_file_of_workloads_is_played_with_queues_from_manifests(tmp_path):
    work, queues = tmp_path / "work.csv", tmp_path / "queues.yaml"
    work.write_text("device_class,queue,arrival,run_time\n" + "gpu.nvidia.com,team,0,60\n" * 2)
    queues.write_text(
        """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, cpu, memory]
    flavors:
    - name: any
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 1}
      - {name: cpu, nominalQuota: 100}
      - {name: memory, nominalQuota: 1Ti}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
"""
    )
    arguments = [str(work), "--fleet", "p5.48xlarge=1", "-f", str(queues), "--time", "--policy", "pack", "-o", "json"]
    (run,) = json.loads(CliRunner().invoke(replay, arguments).stdout)["runs"]
    assert run["placed"] == 2
    # The queue has quota for one GPU: the second waits until the first has ended.
    assert run["waitSecondsByQueue"]["team"]["median"] == 30


def test_nodes_are_needed(tmp_path):
    work = tmp_path / "work.csv"
    work.write_text("device_class\ngpu.nvidia.com\n")
    result = CliRunner().invoke(replay, [str(work)])
    assert result.exit_code == 2
    assert "--nodes, --fleet and --snapshot" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--load", "nan"],
        ["--load", "inf"],
        ["--load", "1e30"],
        ["--load", "0"],
        ["--load", "many"],
        ["--seeds", "1000000000"],
        ["--jobs", "1000000000"],
    ],
)
def test_numbers_without_bounds_are_refused(tmp_path, arguments):
    result = played(tmp_path, *arguments)
    assert result.exit_code == 2
    assert f"invalid value for '{arguments[0]}'" in result.output.lower()


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "x"])
def test_weights_of_random_partitions_are_above_zero(weight):
    asked = ["--random-profiles", f"1g.10gb={weight}", "--fleet", "a3-highgpu-1g:mig=1"]
    result = CliRunner().invoke(replay, asked)
    assert result.exit_code == 2
    assert "with a weight above 0" in result.output


def test_a_file_without_workloads_is_named(tmp_path):
    result = played(tmp_path, tasks=TASKS.splitlines()[0] + "\n")
    assert result.exit_code == 2
    assert "tasks.csv: no workload is in the file" in result.output


def test_a_file_that_is_cut_off_is_an_error(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    cut = tmp_path / "tasks.csv.gz"
    cut.write_bytes(gzip.compress(TASKS.encode())[:40])
    result = CliRunner().invoke(replay, [str(cut), "--nodes", str(tmp_path / "nodes.csv")])
    assert result.exit_code == 2
    assert "tasks.csv.gz: the compressed file is cut off" in result.output
