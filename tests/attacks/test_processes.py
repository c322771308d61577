"""What is told of processes: time without a CPU, and only that."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.attacks.processes import Starvation

BUSY = "import os; os.sched_setaffinity(0, {0}); print(flush=True)\nwhile True: pass"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_who_shares_a_cpu_waits_for_it_and_who_sleeps_does_not() -> None:
    crowd = [subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for each in crowd:
            assert each.stdout is not None
            each.stdout.readline()
        busy, idle = Starvation([each.pid for each in crowd]), Starvation([os.getpid()])
        began = time.monotonic()
        time.sleep(0.5)
        elapsed = time.monotonic() - began
        # Two share one CPU: one of them waits for half of the time at least.
        assert 0.3 * elapsed < busy.seconds < elapsed + 0.1
        assert idle.seconds < 0.5 * elapsed
    finally:
        for each in crowd:
            each.kill()
            each.communicate()
