import os
import subprocess
import sys
import uuid

import pytest

from dray.node.cpusets.cgroups import CgroupError, Hierarchy, find_hierarchy

# Tells the CPUs that it may run on, as it sees them, once for every line that it reads.
LOOK = "import os,sys\nfor _ in sys.stdin: print(*sorted(os.sched_getaffinity(0)), flush=True)"


class Process:
    """A process that tells on which CPUs it may run."""

    def __init__(self, environment):
        environment = {**os.environ, **environment}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-c", LOOK], stdin=pipe, stdout=pipe, text=True, env=environment
        )
        self.pid = self._process.pid

    def seen(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return {int(cpu) for cpu in self._process.stdout.readline().split()}

    def end(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


@pytest.fixture
def start_process():
    started = []

    def start(**environment):
        process = Process(environment)
        started.append(process)
        return process

    yield start
    for process in started:
        process.end()


@pytest.fixture
def kernel_cgroups():
    """A part of this machine's cgroups that is the test's own."""
    found = find_hierarchy()
    if found is None:
        pytest.skip("this machine shows no cpuset controller")
    name = f"dray-test-{uuid.uuid4().hex[:8]}"
    try:
        group = found.make(name, frozenset(os.sched_getaffinity(0)))
    except CgroupError as error:
        pytest.skip(f"cpusets cannot be written here: {error}")
    yield Hierarchy(group.directory, found.version)
    group.remove()


@pytest.fixture
def two_cpus():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU only")
    return cpus[:2]
