"""How much of a real cluster's GPUs is allocated: 1,213 nodes with 6,212 GPUs, tasks that ask for 130 % of them.

The trace is Alibaba's cluster-trace-gpu-v2023 (openb), which is not kept here: DRAY_TRACES names the folder that has
its files, compressed. DRAY_TRACE_SEEDS says in which orders the tasks come (1,2,3), DRAY_TRACE_NODES how many of the
nodes take part (all).
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.scheduling.trace import WHOLE, drawn, machines, played, tasks

FOLDER = Path(os.environ.get("DRAY_TRACES") or "traces")
SEEDS = [int(each) for each in os.environ.get("DRAY_TRACE_SEEDS", "1").split(",")]
NODES = int(os.environ.get("DRAY_TRACE_NODES", "0"))
REQUESTED = 1.3


@pytest.mark.skipif(not FOLDER.is_dir(), reason="DRAY_TRACES names no folder with the trace")
@pytest.mark.parametrize("variant", ["default", "multigpu20"])
def test_packing_allocates_at_least_as_much_as_the_default(benchmark, variant):
    found = []
    for seed in SEEDS:
        cluster = machines(FOLDER)
        if NODES:
            cluster = Random(seed).sample(cluster, NODES)
        units = WHOLE * sum(machine.gpus for machine in cluster)
        sequence = drawn(tasks(FOLDER, variant), REQUESTED * units, seed)
        plain = played(cluster, sequence, seed=seed)
        packed = benchmark_once(benchmark, cluster, sequence, seed)
        found.append((plain, packed))
        print(f"{variant}, seed {seed}: {plain:.2f} % by default, {packed:.2f} % packed")
    benchmark.extra_info["allocated"] = found
    assert sum(packed for _, packed in found) >= sum(plain for plain, _ in found)


def benchmark_once(benchmark, cluster, sequence, seed):
    """The time of the first is the figure."""
    options = {"policy": "pack", "seed": seed}
    if benchmark.stats is not None:
        return played(cluster, sequence, **options)
    return benchmark.pedantic(played, (cluster, sequence), options, rounds=1, iterations=1)
