"""Writes over a few hundred live objects leave memory flat; DRAY_CHURN_WRITES sets how many."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.attacks.churn import LIVE, Churn
from tests.attacks.cluster import LAB, started

WRITES = int(os.environ.get("DRAY_CHURN_WRITES", "1500"))
# What is kept of the past by bytes, what caches take that fill up by and by, and what the allocator does not give back.
SPARE = 220 << 20
# By then all of that is there.
FILLED = 60_000


def test_churn_leaves_memory_flat(tmp_path: Path) -> None:
    with started(tmp_path, LAB) as cluster:
        churn = Churn(cluster.url, seed=1)
        churn.run(2 * LIVE)
        first = cluster.memory
        churn.run(min(WRITES, FILLED))
        middle = cluster.memory
        assert middle - first < SPARE
        churn.run(max(0, WRITES - FILLED))
        time.sleep(2)
        assert cluster.memory < 1.15 * middle + (8 << 20)
        assert "Traceback" not in cluster.log
