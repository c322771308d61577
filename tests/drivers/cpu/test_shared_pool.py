import shutil

import pytest

from dray.drivers.cpu.container_specs import ContainerSpecs
from dray.drivers.cpu.shared_pool import HeldCpus, SharedPool
from dray.node.cpusets.cgroups import Hierarchy
from tests.drivers.cpu.runc import allowed_cpus, environment_names, write_spec
from tests.node.cpusets.test_cgroups import v2_tree

POD = "0b9f1a52-67c5-4d0e-9c1c-1f6f4f6b0a11"
OTHER = "99999999-67c5-4d0e-9c1c-1f6f4f6b0a11"
CLAIM = "c1a1b000-0000-4000-8000-000000000001"
SECOND_CLAIM = "c1a1b000-0000-4000-8000-000000000002"
# A container's first process has the variable of its claim, or not: a shell drops it from what it execs.
COMMANDS = {
    "program": ["sleep", "1000"],
    "shell": ["sh", "-c", "while true; do sleep 1; done"],
    "exec": ["sh", "-c", "exec sleep 1000"],
    "last": ["sh", "-c", "sleep 1000"],
}


def named(claim):
    return {f"DRA_CPUSET_{claim}": "0"}


def held_by(pod, cpu):
    return {CLAIM: HeldCpus(frozenset({cpu}), frozenset({pod}))}


@pytest.fixture
def specs(tmp_path):
    """Reads specs of containers in bundles below the test's directory."""
    return ContainerSpecs([f"{tmp_path}/bundles/{{id}}"])


@pytest.fixture
def containers(kernel_cgroups, two_cpus, start_process, tmp_path):
    """Processes in the cgroups of containers, with the specs that a runtime writes."""

    def start(pod, name, environment):
        write_spec(tmp_path / "bundles" / name, environment)
        process = start_process()
        kernel_cgroups.make(f"kubepods/burstable/pod{pod}/{name}", frozenset(two_cpus)).take(process.pid)
        return process

    return start


@pytest.mark.parametrize("places", ["usual", "unknown"])
def test_whatever_a_container_execs_it_has_the_cpus_of_its_claim(places, runc, specs, kernel_cgroups, two_cpus):
    first, second = two_cpus
    specs = specs if places == "usual" else ContainerSpecs([])
    pids = {name: runc.start(POD, name, command, named(CLAIM)) for name, command in COMMANDS.items()}
    other = runc.start(OTHER, "other", COMMANDS["program"])
    lost = {name for name, pid in pids.items() if f"DRA_CPUSET_{CLAIM}" not in environment_names(pid)}
    assert lost == {"exec", "last"}
    for _ in range(2):
        # A driver that is started anew finds the same.
        done = SharedPool(kernel_cgroups, frozenset(two_cpus), specs).sweep(held_by(POD, second))
        assert (done.pinned, done.problems) == (4, [])
        assert {name: allowed_cpus(pid) for name, pid in pids.items()} == {name: {second} for name in COMMANDS}
        assert allowed_cpus(other) == {first}


def test_containers_of_a_pod_have_their_own_claims_also_after_a_restart(runc, specs, kernel_cgroups, two_cpus):
    first, second = two_cpus
    held = {
        CLAIM: HeldCpus(frozenset({first}), frozenset({POD})),
        SECOND_CLAIM: HeldCpus(frozenset({second}), frozenset({POD})),
    }
    pool = SharedPool(kernel_cgroups, frozenset(two_cpus), specs)
    command = COMMANDS["exec"]
    initial = runc.start(POD, "init", command, named(CLAIM))
    pool.sweep(held)
    assert allowed_cpus(initial) == {first}
    runc.delete("init")
    main = runc.start(POD, "main", command, named(CLAIM))
    sidecar = runc.start(POD, "sidecar", command, named(SECOND_CLAIM))
    both = runc.start(POD, "both", command, {**named(CLAIM), **named(SECOND_CLAIM)})
    pool.sweep(held)
    assert [allowed_cpus(pid) for pid in (main, sidecar, both)] == [{first}, {second}, {first, second}]
    runc.delete("main")
    again = runc.start(POD, "again", command, named(CLAIM))
    pool.sweep(held)
    assert allowed_cpus(again) == {first}


def test_a_container_without_spec_shares_cpus_and_is_reported(containers, specs, kernel_cgroups, two_cpus, tmp_path):
    first, second = two_cpus
    process = containers(POD, "main", named(CLAIM))
    shutil.rmtree(tmp_path / "bundles/main")
    pool = SharedPool(kernel_cgroups, frozenset(two_cpus), specs)
    # A container may just be being created.
    assert pool.sweep(held_by(POD, second)).problems == []
    (problem,) = pool.sweep(held_by(POD, second)).problems
    assert problem.endswith("/main: no OCI spec of this container is found, and its pod has a claim")
    assert process.seen() == {first}


def test_a_claim_has_its_cpus_alone_and_gives_them_back(containers, specs, kernel_cgroups, two_cpus):
    first, second = two_cpus
    claiming = containers(POD, "main", named(CLAIM))
    sidecar, other = containers(POD, "sidecar", {}), containers(OTHER, "other", {})
    pool = SharedPool(kernel_cgroups, frozenset(two_cpus), specs)
    held = held_by(POD, second)
    done = pool.sweep(held)
    assert (done.pinned, done.shared, done.changed, done.problems) == (1, 2, 3, [])
    # Recorded CPUs count, whatever the variable says.
    assert claiming.seen() == {second}
    assert sidecar.seen() == other.seen() == {first}
    assert pool.sweep(held).changed == 0
    assert pool.sweep({}).changed == 3
    assert claiming.seen() == sidecar.seen() == set(two_cpus)


# No machine that runs these tests has it: to the kernel it is a CPU that is offline.
OFFLINE = 9999


def test_containers_are_held_to_their_cpus_while_other_cpus_are_offline(containers, specs, kernel_cgroups, two_cpus):
    first, second = two_cpus
    claiming, other = containers(POD, "main", named(CLAIM)), containers(OTHER, "other", {})
    pool = SharedPool(kernel_cgroups, frozenset({*two_cpus, OFFLINE}), specs)
    done = pool.sweep({CLAIM: HeldCpus(frozenset({second, OFFLINE}), frozenset({POD}))})
    assert (done.changed, done.problems, done.is_partial) == (2, [], True)
    assert (claiming.seen(), other.seen()) == ({second}, {first})
    assert pool.sweep({CLAIM: HeldCpus(frozenset({second, OFFLINE}), frozenset({POD}))}).changed == 0
    done = pool.sweep({CLAIM: HeldCpus(frozenset({OFFLINE}), frozenset({POD}))})
    assert ["these CPUs are offline" in problem for problem in done.problems] == [True]


def test_a_cpu_that_was_offline_is_given_back_to_the_groups_of_pods(containers, specs, kernel_cgroups, two_cpus):
    first, second = two_cpus
    claiming = containers(POD, "main", named(CLAIM))
    # As the kernel leaves groups when a CPU was offline for a while.
    kernel_cgroups.group("kubepods").confine(frozenset({first}))
    assert SharedPool(kernel_cgroups, frozenset(two_cpus), specs).sweep(held_by(POD, second)).problems == []
    assert claiming.seen() == {second}


def test_a_container_that_names_a_claim_of_another_pod_shares_cpus(containers, specs, kernel_cgroups, two_cpus):
    first, second = two_cpus
    liar, unknown = containers(OTHER, "liar", named(CLAIM)), containers(POD, "unknown", named("no-such-claim"))
    assert SharedPool(kernel_cgroups, frozenset(two_cpus), specs).sweep(held_by(POD, second)).pinned == 0
    assert liar.seen() == unknown.seen() == {first}


def test_processes_outside_of_pods_are_left_alone(kernel_cgroups, two_cpus, start_process):
    process = start_process(**named(CLAIM))
    kernel_cgroups.make("system/daemon", frozenset(two_cpus)).take(process.pid)
    assert SharedPool(kernel_cgroups, frozenset(two_cpus)).sweep(held_by(POD, two_cpus[0])).changed == 0
    assert process.seen() == set(two_cpus)


@pytest.mark.parametrize(
    ("path", "bundle"),
    [
        (
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice"
            "/cri-containerd-0123abcd.scope",
            "run/containerd/io.containerd.runtime.v2.task/k8s.io/0123abcd",
        ),
        (
            f"kubelet/kubepods/besteffort/pod{POD}/0123abcd",
            "run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/0123abcd",
        ),
        (
            f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{POD.replace('-', '_')}.slice"
            "/crio-0123abcd.scope",
            "run/containers/storage/overlay-containers/0123abcd/userdata",
        ),
    ],
)
def test_pods_and_specs_are_found_in_all_layouts_of_version_2(tmp_path, path, bundle):
    parts = path.split("/")
    monitor = "/".join([*parts[:-1], "crio-conmon-0123abcd.scope"])
    v2_tree(tmp_path / "cgroup", *("/".join(parts[: count + 1]) for count in range(len(parts))), monitor)
    container = tmp_path / "cgroup" / path
    spec = tmp_path / "proc/1/root" / bundle
    write_spec(spec, {"A": "b", f"DRA_CPUSET_{CLAIM}": "2"})
    pool = SharedPool(Hierarchy(tmp_path / "cgroup", 2), frozenset(range(4)), ContainerSpecs(proc=tmp_path / "proc"))
    done = pool.sweep(held_by(POD, 2))
    assert (done.pinned, done.shared) == (1, 1)
    assert (container / "cpuset.cpus").read_text() == "2"
    assert (tmp_path / "cgroup" / monitor / "cpuset.cpus").read_text() == "0-1,3"
    write_spec(spec, {"A": "b"})
    assert pool.sweep(held_by(POD, 2)).shared == 2
    assert (container / "cpuset.cpus").read_text() == "0-1,3"
