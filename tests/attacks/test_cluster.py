"""The harness itself: it notices what it should."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.attacks.cluster import LAB, TooSlow, started


def test_a_healthy_cluster_is_undisturbed_also_after_a_crash(tmp_path: Path) -> None:
    with started(tmp_path, LAB) as cluster:
        with cluster.undisturbed(0.5):
            assert cluster.memory > 30_000_000
        cluster.restart(signal.SIGKILL)
        with cluster.undisturbed(0.5):
            assert len(cluster.get("/api/v1/nodes")["items"]) == 5


def test_a_stall_is_noticed(tmp_path: Path) -> None:
    def stall() -> None:
        with cluster.undisturbed(0.3):
            time.sleep(0.2)
            os.kill(cluster.pid, signal.SIGSTOP)
            time.sleep(1.5)
            os.kill(cluster.pid, signal.SIGCONT)

    with started(tmp_path) as cluster, pytest.raises(TooSlow):
        stall()


def test_an_end_is_noticed(tmp_path: Path) -> None:
    def end() -> None:
        with cluster.undisturbed():
            time.sleep(0.2)
            os.kill(cluster.pid, signal.SIGKILL)

    with started(tmp_path) as cluster, pytest.raises(AssertionError, match="ended with -9"):
        end()
