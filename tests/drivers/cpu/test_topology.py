import os

import pytest

from dray.drivers.cpu.topology import TopologyError, read_topology
from tests.drivers.cpu.machines import machine, with_roots, write_sysfs


def test_a_server_with_two_sockets_is_read_as_it_is(tmp_path):
    written = with_roots(machine(sockets=2, nodes=2, caches=2, cores=4), pci0000_00="0-15", pci0000_80="16-31")
    read = read_topology(write_sysfs(tmp_path, written))
    assert read == written
    assert len(read.sockets) == 2
    assert len(read.numa_nodes) == 4
    assert len(read.l3_caches) == 8
    assert read.siblings(0) == {0, 32}


def test_cores_of_the_same_number_in_two_sockets_are_different_cores(tmp_path):
    read = read_topology(write_sysfs(tmp_path, machine(sockets=2, cores=2, threads=1), smt="notsupported"))
    assert [cpu.core_id for cpu in read.cpus.values()] == [0, 1, 0, 1]
    assert len(read.cores) == 4
    assert not read.smt_enabled


def test_offline_cpus_are_no_cpus(tmp_path):
    read = read_topology(write_sysfs(tmp_path, machine(cores=2), offline=[3]))
    assert read.online == {0, 1, 2}
    assert read.siblings(1) == {1}


def test_hybrid_machines_have_performance_and_efficiency_cores(tmp_path):
    read = read_topology(write_sysfs(tmp_path, machine(cores=4, threads=1), cpu_atom="2-3"))
    assert [cpu.core_type for cpu in read.cpus.values()] == ["p-core", "p-core", "e-core", "e-core"]


def test_isolated_cpus_are_named(tmp_path):
    assert read_topology(write_sysfs(tmp_path, machine(), isolated="2-3")).isolated == {2, 3}


def test_without_a_control_file_siblings_tell_about_smt(tmp_path):
    assert read_topology(write_sysfs(tmp_path, machine(), smt="")).smt_enabled


def test_a_cache_without_identity_is_that_of_its_first_cpu(tmp_path):
    write_sysfs(tmp_path, machine(caches=2, cores=2, threads=1))
    for file in tmp_path.glob("devices/system/cpu/cpu*/cache/index3/id"):
        file.unlink()
    assert [cpu.l3 for cpu in read_topology(tmp_path).cpus.values()] == [0, 0, 2, 2]


def test_what_a_kernel_does_not_state_is_not_made_up(tmp_path):
    root = tmp_path / "devices/system/cpu"
    (root / "cpu0/topology").mkdir(parents=True)
    (root / "online").write_text("0-1\n")
    (root / "cpu0/topology/core_id").write_text("0\n")
    (root / "cpu0/topology/physical_package_id").write_text("0\n")
    read = read_topology(tmp_path)
    assert read.cpus[0].numa_node is None
    assert read.cpus[0].l3 is None
    assert read.incomplete == {1}


def test_a_machine_that_does_not_name_its_cpus_is_an_error_with_the_file(tmp_path):
    with pytest.raises(TopologyError, match="devices/system/cpu/online"):
        read_topology(tmp_path)


def test_this_machine_has_the_cpus_that_it_runs_on():
    read = read_topology()
    assert os.sched_getaffinity(0) <= read.online
    assert len(read.online) == os.cpu_count()
