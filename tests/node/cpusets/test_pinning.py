import logging
import os

import pytest

from dray.node.cpusets.cgroups import Hierarchy
from dray.node.cpusets.pinning import Pinning, PinningError, claimed_cpus, set_affinity


def test_a_container_has_the_cpus_of_all_its_claims():
    environment = {"DRA_CPUSET_1-2": "0-1", "DRA_CPUSET_3": "4", "PATH": "/bin"}
    assert claimed_cpus(environment) == {0, 1, 4}
    assert claimed_cpus({"PATH": "/bin"}) == frozenset()


def test_a_variable_that_is_no_cpuset_is_refused_by_name():
    with pytest.raises(PinningError, match="DRA_CPUSET_x: 'all' is not a list of CPUs"):
        claimed_cpus({"DRA_CPUSET_x": "all"})


@pytest.mark.parametrize("by_cgroup", [True, False])
def test_two_processes_see_different_cpus_from_inside(by_cgroup, kernel_cgroups, two_cpus, start_process):
    hierarchy = kernel_cgroups if by_cgroup else None
    processes = [start_process(), start_process()]
    pinnings = [Pinning(f"c{cpu}", frozenset({cpu}), hierarchy) for cpu in two_cpus]
    for process, pinning in zip(processes, pinnings, strict=True):
        pinning.apply(process.pid)
    assert [process.seen() for process in processes] == [{cpu} for cpu in two_cpus]
    assert {pinning.mechanism for pinning in pinnings} == {
        f"cgroup v{kernel_cgroups.version}" if by_cgroup else "affinity"
    }
    pinnings[0].change(frozenset(two_cpus[1:]))
    assert processes[0].seen() == set(two_cpus[1:])
    for process, pinning in zip(processes, pinnings, strict=True):
        process.end()
        pinning.release()
    assert not list(kernel_cgroups.root.glob("dray/*/cgroup.procs"))


def test_where_cgroups_cannot_be_written_affinity_is_used_with_a_warning(tmp_path, two_cpus, start_process, caplog):
    (tmp_path / "cgroup.subtree_control").mkdir()
    process = start_process()
    with caplog.at_level(logging.WARNING):
        pinning = Pinning("c", frozenset(two_cpus[:1]), Hierarchy(tmp_path, 2))
    assert "c is held to CPUs" in caplog.text
    pinning.apply(process.pid)
    assert process.seen() == set(two_cpus[:1])
    pinning.release()


def test_a_process_that_has_ended_needs_no_cpus():
    set_affinity(2**22, frozenset({0}))


def test_cpus_that_are_not_there_are_refused(start_process):
    with pytest.raises(PinningError, match="cannot pin thread"):
        set_affinity(start_process().pid, frozenset({60000}))


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_names_do_not_lead_out_of_the_parent(name, kernel_cgroups):
    with pytest.raises(PinningError, match="cannot name a cgroup"):
        Pinning(name, frozenset(os.sched_getaffinity(0)), kernel_cgroups)
