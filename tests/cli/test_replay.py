"""`dray replay` on small traces."""

import json

from click.testing import CliRunner

from dray.cli.replay import replay

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


def test_virtual_time_reports_waiting_times(tmp_path):
    result = played(tmp_path, "--time", "--policy", "pack", "-o", "json")
    (run,) = json.loads(result.stdout)["runs"]
    assert (run["placed"], run["waitSeconds"]) == (4, {"median": 0, "p95": 0})


def test_a_file_without_the_columns_is_an_error(tmp_path):
    result = played(tmp_path, tasks="x\n1\n")
    assert result.exit_code == 2
    assert "column cpu_milli not found" in result.output
