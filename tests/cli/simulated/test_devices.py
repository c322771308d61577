"""`dray devices` and `dray top` of a running cluster."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dray.node.runtimes.shim.terminal import resize
from tests.cli.running import PATIENCE, eventually
from tests.cli.simulated.conftest import A100, SHARED, Up


def steady(line: str) -> str:
    """Without times, and without the width of columns."""
    return re.sub(r" {2,}", "  ", re.sub(r"\b\d+s\b", "*s", line))


def documented() -> list[str]:
    """What docs/devices.md shows of both commands."""
    text = (Path(__file__).parents[3] / "docs/devices.md").read_text()
    blocks = re.findall(r"```\n(\$ .*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("$")]


def test_what_is_held_by_whom_and_what_waits(up: Up) -> None:
    up.start("run", "--name", "training", "--gpu", "2", "--node", A100, "--", "sleep", "999")
    up.start("run", "--name", "chat", "--gpu", "1", "--memory", "20Gi", "--node", SHARED, "--", "sleep", "999")
    eventually(lambda: [each["status"].get("phase") for each in up.items("pods")] == ["Running", "Running"])
    up.start("run", "--name", "later", "--gpu", "8", "--node", A100, "--", "true")
    found = up.dray("devices", "--driver", "gpu.nvidia.com", "--state", "allocated", "--state", "shared")
    rows = [re.split(r"\s{2,}", line) for line in found.stdout.splitlines()]
    assert rows[0] == ["NODE", "DRIVER", "DEVICE", "KIND", "STATE", "CLAIM", "PODS"]
    shared = "shared: 20Gi of 81559Mi memory"
    h100, a100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"
    assert rows[1] == [SHARED, "gpu.nvidia.com", "gpu-0", h100, shared, "default/chat (20Gi memory)", "chat"]
    assert rows[2:] == [
        [A100, "gpu.nvidia.com", device, a100, "allocated", "default/training", "training"]
        for device in ("gpu-0", "gpu-1")
    ]
    assert found.stderr == "3 devices: 2 allocated, 1 shared\n"
    free = json.loads(up.dray("devices", "--node", A100, "--state", "free", "-o", "json").stdout)
    assert [each["device"] for each in free if each["driver"] == "gpu.nvidia.com"] == [f"gpu-{n}" for n in range(2, 8)]
    eventually(lambda: "needs 8, 6 available" in json.dumps(up.named("pods").get("later", {})))
    # Both claims have a report of their GPUs some seconds after their pods have started.
    eventually(lambda: up.dray("top").stdout.count("80%") == 2)
    top = up.dray("top").stdout
    for line in documented():
        assert steady(line) in [steady(each) for each in (*found.stdout.splitlines(), *top.splitlines())]
    assert re.search(r"p4d-24xlarge-0 .* 2/8 +██░+ +80% +training \(gpu-0, gpu-1\)", top)
    assert re.search(r"a3-highgpu-1g-0 .* 20Gi/81559Mi memory +███░+ +80% +chat \(20Gi memory\)", top)
    assert re.search(r"default/later +\d+s +0/5 nodes are available: .*gpu: needs 8, 6 available", top)

    _check_utilization(up)


def _check_utilization(up: Up) -> None:
    """`devices` shows the utilization of both claims, and `usage` adds it up."""
    found = {each["node"]: each for each in json.loads(up.dray("devices", "-o", "json").stdout) if each["claims"]}
    assert found[SHARED]["utilization"]["percent"] == 80
    # Of its share of the memory.
    assert found[SHARED]["utilization"]["memoryUsedBytes"] == round(0.8 * 20 * 2**30)
    wide = up.dray("devices", "-o", "wide", "--node", A100, "--state", "allocated").stdout
    assert len(re.findall(r" 80% +32\.0Gi ", wide)) == 2
    (hours,) = eventually(lambda: _used_gpus(up))
    assert hours["namespace"] == "default"
    assert hours["allocatedHours"] <= hours["requestedHours"]


def _used_gpus(up: Up) -> list[dict[str, Any]]:
    """Returns the rows of `usage` for GPUs with allocated hours, which are rounded: the first seconds are none."""
    rows = json.loads(up.dray("usage", "--class", "gpu.nvidia.com", "-o", "json").stdout or "[]")
    return [row for row in rows if row["allocatedHours"] > 0]


def test_top_on_a_terminal_follows_what_happens_and_q_ends_it(up: Up) -> None:
    ours, theirs = pty.openpty()
    resize(theirs, 100, 30)
    command = [sys.executable, "-c", "from dray.cli import main; main()", "top"]
    environment = {**os.environ, "KUBECONFIG": str(up.config), "TERM": "xterm"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True)
    os.close(theirs)
    shown = b""

    def until(text: bytes) -> None:
        nonlocal shown
        end = time.monotonic() + PATIENCE
        while text not in shown:
            assert time.monotonic() < end, shown
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)

    try:
        until(b"q ends")
        assert b"no pod waits" in shown
        up.start("run", "--name", "seen", "--gpu", "1", "--node", A100, "--", "sleep", "999")
        until(b"seen (gpu-0)")
        os.write(ours, b"q")
        until(b"\x1b[?1049l")
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
