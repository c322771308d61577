import pytest

from dray.drivers.cpu.shared_pool import HeldCpus, SharedPool
from dray.node.cpusets.cgroups import Hierarchy
from tests.node.cpusets.test_cgroups import v2_tree

POD = "0b9f1a52-67c5-4d0e-9c1c-1f6f4f6b0a11"
OTHER = "99999999-67c5-4d0e-9c1c-1f6f4f6b0a11"
CLAIM = "c1a1b000-0000-4000-8000-000000000001"


def named(claim):
    return {f"DRA_CPUSET_{claim}": "0"}


@pytest.fixture
def containers(kernel_cgroups, two_cpus, start_process):
    def start(pod, name, environment):
        process = start_process(**environment)
        kernel_cgroups.make(f"kubepods/burstable/pod{pod}/{name}", frozenset(two_cpus)).take(process.pid)
        return process

    return start


def test_a_claim_has_its_cpus_alone_and_gives_them_back(containers, kernel_cgroups, two_cpus):
    first, second = two_cpus
    claiming = containers(POD, "main", named(CLAIM))
    sidecar, other = containers(POD, "sidecar", {}), containers(OTHER, "main", {})
    pool = SharedPool(kernel_cgroups, frozenset(two_cpus))
    held = {CLAIM: HeldCpus(frozenset({second}), frozenset({POD}))}
    done = pool.sweep(held)
    assert (done.pinned, done.shared, done.changed, done.problems) == (1, 2, 3, [])
    # Recorded CPUs count, whatever the variable says.
    assert claiming.seen() == {second}
    assert sidecar.seen() == other.seen() == {first}
    assert pool.sweep(held).changed == 0
    assert pool.sweep({}).changed == 3
    assert claiming.seen() == sidecar.seen() == set(two_cpus)


def test_a_container_that_names_a_claim_of_another_pod_shares_cpus(containers, kernel_cgroups, two_cpus):
    first, second = two_cpus
    liar, unknown = containers(OTHER, "liar", named(CLAIM)), containers(POD, "unknown", named("no-such-claim"))
    held = {CLAIM: HeldCpus(frozenset({second}), frozenset({POD}))}
    assert SharedPool(kernel_cgroups, frozenset(two_cpus)).sweep(held).pinned == 0
    assert liar.seen() == unknown.seen() == {first}


def test_processes_outside_of_pods_are_left_alone(kernel_cgroups, two_cpus, start_process):
    process = start_process(**named(CLAIM))
    kernel_cgroups.make("system/daemon", frozenset(two_cpus)).take(process.pid)
    held = {CLAIM: HeldCpus(frozenset(two_cpus[:1]), frozenset({POD}))}
    assert SharedPool(kernel_cgroups, frozenset(two_cpus)).sweep(held).changed == 0
    assert process.seen() == set(two_cpus)


@pytest.mark.parametrize(
    "path",
    [
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-x.scope",
        f"kubelet/kubepods/besteffort/pod{POD}/0123abcd",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{POD.replace('-', '_')}.slice/crio-x.scope",
    ],
)
def test_pods_are_found_in_all_layouts_of_version_2(tmp_path, path):
    parts = path.split("/")
    v2_tree(tmp_path / "cgroup", *("/".join(parts[: count + 1]) for count in range(len(parts))))
    container = tmp_path / "cgroup" / path
    (container / "cgroup.procs").write_text("7\n")
    (tmp_path / "7").mkdir()
    (tmp_path / "7/environ").write_bytes(b"A=b\0DRA_CPUSET_" + CLAIM.encode() + b"=2\0")
    pool = SharedPool(Hierarchy(tmp_path / "cgroup", 2), frozenset(range(4)), proc=tmp_path)
    assert pool.sweep({CLAIM: HeldCpus(frozenset({2}), frozenset({POD}))}).pinned == 1
    assert (container / "cpuset.cpus").read_text() == "2"
    (tmp_path / "7/environ").write_bytes(b"A=b\0")
    assert pool.sweep({CLAIM: HeldCpus(frozenset({2}), frozenset({POD}))}).shared == 1
    assert (container / "cpuset.cpus").read_text() == "0-1,3"
