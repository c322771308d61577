"""CSV files that cannot be read: the error has the file, the line, the column, and what is allowed."""

import gzip

import pytest

from dray.replay.csv_files import TraceError
from dray.replay.traces import read_machines, read_tasks
from dray.replay.workload_files import read_workloads

NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
TASKS = "cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"
WORK = "device_class,devices,cpu,priority,pods,run_time,selector\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("abc,1,1,500,0,1", r"cpu_milli: 'abc' is not a whole number from 0"),
        ("-5,1,1,500,0,1", r"cpu_milli: '-5' is not a whole number from 0"),
        ("1,1,-2,500,0,1", r"num_gpu: '-2' is not a whole number from 0 to 128"),
        ("1,1,99999999999,500,0,1", r"num_gpu: '99999999999' is not a whole number from 0 to 128"),
        ("1,1,1,5000,0,1", r"gpu_milli: '5000' is not a whole number from 1 to 1000"),
        ("1,1,1,0,0,1", r"gpu_milli: '0' is not a whole number from 1 to 1000"),
        ("1,1,1,500,nan,1", r"creation_time: 'nan' is not a number of seconds"),
        ("1,1,1,500,0,inf", r"deletion_time: 'inf' is not a number of seconds"),
        ("1,1,1", r"gpu_milli: the line has no value for it"),
        ("1,1,1,500,0,1,9", r"the line has more values than there are columns"),
        ('"1,1,1,500,0,1', r".*is a quote missing\?"),
    ],
)
def test_a_task_that_cannot_be_read_names_its_line_and_what_is_allowed(tmp_path, row, message):
    file = tmp_path / "tasks.csv"
    file.write_text(f"{TASKS}1,1,1,500,0,1\n{row}\n")
    with pytest.raises(TraceError, match=rf"tasks\.csv, line 3: {message}"):
        read_tasks(file)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("b,1,1,x,T4", "gpu: 'x' is not a whole number from 0 to 128"),
        ("b,1,1,99999999,T4", "gpu: '99999999' is not a whole number from 0 to 128"),
        ("a,1,1,1,T4", "sn: there are two nodes 'a'"),
        (",1,1,1,T4", "sn: the line has no value for it"),
    ],
)
def test_a_node_that_cannot_be_read_names_its_line_and_what_is_allowed(tmp_path, row, message):
    file = tmp_path / "nodes.csv"
    file.write_text(f"{NODES}a,1,1,1,T4\n{row}\n")
    with pytest.raises(TraceError, match=rf"nodes\.csv, line 3: {message}"):
        read_machines(file)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("gpu,-1,1,0,1,1,", "devices: '-1' is not a whole number from 0 to 32"),
        ("gpu,1,1,99999999999,1,1,", "priority: '99999999999' is not a whole number"),
        ("gpu,1,1,0,99999999,1,", "pods: '99999999' is not a whole number from 1 to 10000"),
        ("gpu,1,1,0,1,-10,", "run_time: '-10' is not a number of seconds from 0"),
        ("gpu,1,1,0,1,1,device.foo ==", "selector: "),
    ],
)
def test_a_workload_that_cannot_be_read_names_its_line_and_what_is_allowed(tmp_path, row, message):
    file = tmp_path / "work.csv"
    file.write_text(f"{WORK}{row}\n")
    with pytest.raises(TraceError, match=rf"work\.csv, line 2: {message}"):
        read_workloads(file, {})


def test_a_file_that_is_cut_off_or_no_text_is_named(tmp_path):
    packed = gzip.compress((TASKS + "1,1,1,500,0,1\n" * 500).encode())
    for name, content in (
        ("cut.csv.gz", packed[: len(packed) // 2]),
        ("not.csv.gz", b"no archive"),
        ("broken.csv.gz", packed[:20] + b"\xff" * 40),
        ("text.csv", b"\xff\xfe\x00" * 9),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TraceError, match=f"{name}: "):
            read_tasks(tmp_path / name)


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(TraceError, match=r"empty\.csv: the file is empty"):
        read_tasks(tmp_path / "empty.csv")
