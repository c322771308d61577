"""Mutated objects of all kinds, and calls of all kinds, beside pods of others that must be bound all the while.

DRAY_FUZZ_SECONDS says for how long, DRAY_FUZZ_SEED from which chance they come. After a failure the last calls are in
the file that is named; `python -m tests.attacks.fuzz.replay FILE` cuts them down to those that are needed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from dray.api.catalogue import KINDS
from tests.attacks.cluster import BOUND, LAB, Cluster, TooSlow, retried, started
from tests.attacks.fuzz.calls import seeds
from tests.attacks.fuzz.run import STALL, Run
from tests.attacks.observer import Canary, Probe

SECONDS = float(os.environ.get("DRAY_FUZZ_SECONDS", "8"))
SEED = int(os.environ.get("DRAY_FUZZ_SEED", "7"))
# By how much memory may grow in the second half of a run that is long enough to tell.
GROWTH = 1.5
LONG = 60


def test_no_object_and_no_call_disturbs_the_others(tmp_path: Path) -> None:
    def attempt(folder: Path) -> None:
        with started(folder, LAB) as cluster:
            fuzz(cluster, folder / "journal")

    if SECONDS < LONG:
        retried(tmp_path, attempt)
    else:
        attempt(tmp_path)


def fuzz(cluster: Cluster, journal: Path) -> None:
    run = Run(cluster, SEED, journal)
    probe, canary = Probe(cluster.url, cluster.pid), Canary(cluster.url, cluster.pid)
    began = time.monotonic()
    middle = last = 0
    try:
        run.until(began + SECONDS / 2)
        middle = cluster.memory
        run.until(began + SECONDS)
        last = cluster.memory
    finally:
        readyz, bound = probe.stop(), canary.stop()
        run.close()
        print(f"\nseed {SEED}: {run.sent} calls, {run.accepted} accepted, the longest {run.longest:.2f} s")
        print(f"/readyz within {readyz.longest:.2f} s, canary within {bound.longest:.2f} s")
        print(f"by the clock {readyz.by_the_clock:.2f} s and {bound.by_the_clock:.2f} s")
        print(f"memory {middle / 1e6:.0f} MB in the middle, {last / 1e6:.0f} MB at the end; the last calls: {journal}")
    assert cluster.alive
    assert not readyz.failures
    assert not bound.failures
    assert run.accepted > run.sent / 4
    assert last < GROWTH * middle or SECONDS < LONG
    if run.slow or readyz.longest > STALL or bound.longest > BOUND:
        raise TooSlow(f"/readyz {readyz}, canary {bound}, answers: {[(took, str(sent)) for took, sent in run.slow]}")


def test_every_kind_has_a_seed():
    """But for what nobody stores."""
    left_out = {kind.plural for kind in KINDS} - {seed.plural for seed in seeds()}
    assert left_out == {"bindings", "componentstatuses"}
