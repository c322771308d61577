"""Playing the tasks of a trace: all at once and in virtual time."""

import gzip

import pytest

from dray.replay import reports
from dray.replay.csv_files import TraceError
from dray.replay.simulation import Simulation
from dray.replay.trace_objects import trace_workload, trace_world
from dray.replay.traces import Machine, Task, drawn, read_machines, read_tasks

TWO = trace_world([Machine("a", 8000, 32_768, 2, "T4"), Machine("b", 8000, 32_768, 2, "V100")])


def task(gpus=1, milli=1000, cpu=1000, **members):
    return trace_workload(Task(cpu, 1024, gpus, milli, **members))


def test_tasks_that_do_not_fit_are_refused_for_good():
    run = Simulation(TWO, "kubernetes").play([task(2), task(2), task(1), task(1, 500), task(0, 0)])
    assert (run.percent, run.placed) == (100.0, 3)
    assert dict(run.refused) == {"1": 1, "0.5": 1}
    assert run.curve[-1][:2] == (137.5, 100.0)
    assert dict(run.reasons) == {"CannotAllocate": 2}


def test_models_select_nodes():
    run = Simulation(TWO, "pack").play([task(models="V100|A100") for _ in range(3)])
    assert (run.percent, run.placed) == (50.0, 2)


def test_shares_are_packed_on_one_gpu():
    shares = [task(1, 500, cpu=400) for _ in range(4)]
    assert Simulation(TWO, "pack").play([*shares, task(2)]).refused.total() == 0
    assert Simulation(TWO, "spread").play([*shares, task(2)]).refused.total() == 1


def test_in_virtual_time_tasks_wait_until_others_end():
    tasks = [
        task(2, created=0, deleted=100),
        task(2, created=0, deleted=50),
        task(2, created=10, deleted=30),
        task(4, created=20, deleted=40),
    ]
    run = Simulation(TWO, "pack").play_in_time(tasks)
    assert sorted(wait.seconds for wait in run.waits) == [0, 0, 40]
    # No node has four GPUs.
    assert dict(run.refused) == {"4": 1}


def test_time_never_goes_back():
    tasks = [task(2, created=number, deleted=number + 7) for number in range(30)]
    run = Simulation(TWO, "pack").play_in_time(tasks)
    times = [at for at, *_ in run.curve]
    assert times == sorted(times)
    assert run.placed == 30
    # Two tasks run at a time, and the last one waits longest: it starts after 14 others of seven seconds.
    assert max(wait.seconds for wait in run.waits) == pytest.approx(14 * 7 - 29 + 1, abs=1)


def test_further_tasks_are_drawn_until_the_load_is_reached():
    tasks = [task(1), task(2)]
    found = drawn(tasks, 6000, seed=1)
    assert sum(each.units for each in found) >= 6000
    assert set(found[:2]) == set(tasks)
    assert drawn(tasks, 6000, seed=1) == found


def test_files_are_read_with_the_columns_of_the_trace(tmp_path):
    nodes, tasks = tmp_path / "nodes.csv", tmp_path / "tasks.csv.gz"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,1024,2,T4\n")
    with gzip.open(tasks, "wt") as text:
        text.write("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n")
        text.write("t,100,200,1,500,T4|P100,5,8\nu,100,200,0,1000,,6,\n")
    assert read_machines(nodes) == [Machine("n1", 8000, 1024, 2, "T4")]
    first, second = read_tasks(tasks)
    assert (first.models, first.units, first.seconds) == ("T4|P100", 500, 3.0)
    assert (second.units, second.seconds) == (0, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n1,2\n", "column sn not found"), ("sn,cpu_milli,memory_mib,gpu,model\nn,x,1,1,T4\n", "line 2")],
)
def test_files_that_are_no_traces_are_refused(tmp_path, text, message):
    file = tmp_path / "nodes.csv"
    file.write_text(text)
    with pytest.raises(TraceError, match=message):
        read_machines(file)


def test_reports_compare_policies():
    runs = [Simulation(TWO, policy).play([task(1, 500), task(2), task(1, 500)]) for policy in ("kubernetes", "pack")]
    titles, *rows = reports.rows(runs, timed=False)
    assert titles[:3] == ["POLICY", "RUNS", "ALLOCATED"]
    assert [row[0] for row in rows] == ["kubernetes", "pack"]
    found = reports.document(runs, timed=False)
    assert [run["policy"] for run in found["runs"]] == ["kubernetes", "pack"]
    assert "pack: 75.00 %" in reports.plot(runs, timed=False)


def test_gpus_and_cpus_draw_full_power_while_a_task_uses_them():
    idle = 2 * 10 + 2 * 30 + 20 + 20
    assert Simulation(TWO, "pack").play([]).watts == idle
    shares = [task(1, 500, models="T4"), task(1, 500, models="T4")]
    assert Simulation(TWO, "pack").play(shares).watts == idle + (70 - 10) + (165 - 20)
    run = Simulation(TWO, "pack").play_in_time(
        [task(created=10, deleted=20, models="V100"), task(0, 0, created=30, cpu=0)]
    )
    assert run.watts == pytest.approx(idle + ((300 - 30) + (185 - 20)) / 2)


def test_without_waiting_tasks_that_do_not_fit_on_arrival_are_refused():
    tasks = [task(2, created=number, deleted=number + 10) for number in (0, 1, 2, 12)]
    run = Simulation(TWO, "pack").play_in_time(tasks, wait=False)
    assert (run.placed, dict(run.refused), run.acceptance) == (3, {"2": 1}, 75.0)


def test_the_warm_up_is_not_measured():
    tasks = [task(2, created=0, deleted=100), task(2, created=50, deleted=100)]
    run = Simulation(TWO, "pack").play_in_time(tasks)
    assert (run.placed, run.percent, run.figures.whole_free) == (2, 75.0, 1.0)
    run = Simulation(TWO, "pack").play_in_time(tasks, warm_up=50)
    assert (run.placed, run.percent, run.figures.whole_free) == (1, 100.0, 0.0)


def test_fragmented_is_what_is_free_on_devices_in_use():
    run = Simulation(TWO, "spread").play([task(1, 500), task(1, 500)])
    assert (run.figures.whole_free, run.figures.fragmented) == (2, pytest.approx(100 / 3))
    run = Simulation(TWO, "pack").play([task(1, 500), task(1, 500)])
    assert (run.figures.whole_free, run.figures.fragmented) == (3, 0)
