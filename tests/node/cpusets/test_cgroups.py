import os

import pytest

from dray.node.cpusets.cgroups import CgroupError, Hierarchy, find_hierarchy


def v2_tree(root, *paths):
    """Files as the kernel shows them for version 2; the first group has the controller."""
    for path in ("", *paths):
        directory = root / path
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in {
            "cgroup.controllers": "cpuset cpu memory",
            "cgroup.subtree_control": "cpu memory",
            "cgroup.procs": "",
            "cpuset.cpus": "",
            "cpuset.cpus.effective": "0-3",
        }.items():
            (directory / name).write_text(f"{text}\n")
    return root


def test_the_kernel_moves_processes_of_a_group(kernel_cgroups, two_cpus, start_process):
    process = start_process()
    group = kernel_cgroups.make("a/b", frozenset(two_cpus[:1]))
    group.take(process.pid)
    assert process.seen() == set(two_cpus[:1])
    assert group.processes() == [process.pid]
    group.confine(frozenset(two_cpus[1:]))
    assert process.seen() == set(two_cpus[1:])
    group.confine(frozenset(two_cpus))
    assert process.seen() == set(two_cpus)


def test_groups_inside_follow_to_other_cpus(kernel_cgroups, two_cpus, start_process):
    first, second = two_cpus
    process = start_process()
    outer = kernel_cgroups.make("outer", frozenset({first}))
    kernel_cgroups.make("outer/inner", frozenset({first})).take(process.pid)
    outer.confine(frozenset({second}))
    assert process.seen() == {second}


def test_removing_a_group_gives_its_processes_back(kernel_cgroups, two_cpus, start_process):
    process = start_process()
    group = kernel_cgroups.make("a", frozenset(two_cpus[:1]))
    kernel_cgroups.make("a/b", frozenset(two_cpus[:1])).take(process.pid)
    group.remove()
    group.remove()
    assert not group.directory.exists()
    assert process.pid in kernel_cgroups.group("/").processes()


def test_a_process_is_found_in_its_group(kernel_cgroups, two_cpus, start_process):
    process = start_process()
    group = kernel_cgroups.make("a", frozenset(two_cpus))
    group.take(process.pid)
    assert find_hierarchy().of_process(process.pid) == group
    assert find_hierarchy().of_process(2**22) is None


def test_cpus_that_the_machine_does_not_have_are_refused_with_the_file(kernel_cgroups):
    with pytest.raises(CgroupError, match=r"cannot write '[0-9,-]+' to .*/a/cpuset.cpus"):
        kernel_cgroups.make("a", frozenset({60000}))


def test_version_2_is_found_by_its_controllers(tmp_path):
    assert find_hierarchy(v2_tree(tmp_path)) == Hierarchy(tmp_path, 2)


def test_version_1_is_found_by_its_mount(tmp_path):
    assert find_hierarchy(tmp_path) is None
    (tmp_path / "cpuset").mkdir()
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-3\n")
    assert find_hierarchy(tmp_path) == Hierarchy(tmp_path / "cpuset", 1)


def test_in_version_2_the_controller_is_passed_on(tmp_path):
    hierarchy = find_hierarchy(v2_tree(tmp_path, "dray", "dray/c"))
    group = hierarchy.make("dray/c", frozenset({1, 2}))
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpuset"
    assert (tmp_path / "dray/cgroup.subtree_control").read_text() == "+cpuset"
    assert (group.directory / "cpuset.cpus").read_text() == "1-2"
    group.take(os.getpid())
    assert (group.directory / "cgroup.procs").read_text() == str(os.getpid())


@pytest.mark.parametrize(
    ("version", "text", "path"),
    [
        (1, "4:memory:/a\n3:cpuset,cpu:/b/c\n0::/\n", "b/c"),
        (2, "0::/kubepods/pod1/x\n", "kubepods/pod1/x"),
        (2, "0::/../outside\n", None),
        (1, "0::/a\n", None),
    ],
)
def test_the_group_of_a_process_is_read_from_proc(tmp_path, version, text, path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(text)
    found = Hierarchy(tmp_path, version).of_process(7, proc=tmp_path)
    assert (found and found.directory) == (path and tmp_path / path)
