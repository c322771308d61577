"""The age of a process is the time since it began."""

import os
import time
from pathlib import Path

from dray.process.identity import age, started_at


def test_age_grows_with_the_clock():
    began = time.perf_counter()
    first = age()
    second = age()
    assert 0 < first <= second <= first + (time.perf_counter() - began) + 0.001
    up = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(up - int(started_at(os.getpid())) / os.sysconf("SC_CLK_TCK") - second) < 10
