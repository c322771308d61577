"""The tour of `make demo`, and that the README shows what it prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.running import eventually, running
from tests.cli.test_up import wait

ROOT = Path(__file__).parents[2]
KUBECTL = shutil.which("kubectl")
PENDING = {"simulation": "Pending"}


def steady(text: str) -> str:
    """Without what differs from one run or machine to the next: generated names, ports, times, CPUs, the host."""
    text = re.sub(r"(-devices)-[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1-*****", text)
    text = re.sub(r"MIG-[0-9a-f-]{36}", "MIG-*", text)
    text = re.sub(r"(Cpus_allowed_list:)\s*\d+", r"\1 *", text)
    text = re.sub(rf"\b({re.escape(socket.gethostname().lower())}|vm)\b", "HOST", text)
    return re.sub(r"ready in \d+\.\d s at https://127\.0\.0\.1:\d+", "ready", text)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two pods with a CPU each need two")
def test_the_readme_shows_what_the_demo_prints() -> None:
    # As anybody who has no kubectl.
    environment = {**os.environ, "PATH": "/nowhere:/bin:/usr/bin"}
    command = [sys.executable, "examples/demo.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    # Warnings about this machine are no fault of the demo: it is busy, or its two CPUs are both claimed.
    about_this_machine = ("the event loop stood still", "claims hold all CPUs")
    assert not [line for line in done.stderr.splitlines() if not any(said in line for said in about_this_machine)]
    printed = steady(done.stdout)
    readme = (ROOT / "README.md").read_text()
    demo = readme.partition("## The demo")[2].partition("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)\n```", demo, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        assert steady(block) in printed
    # The last lines can be pasted into a shell in any directory.
    assert f"\n  cd {ROOT}\n  . {ROOT}/.venv/bin/activate\n  dray up --node --simulate " in done.stdout
    assert f"\n  export KUBECONFIG={ROOT}/dray.kubeconfig\n" in done.stdout


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl")
def test_the_demo_with_kubectl(tmp_path: Path) -> None:
    demo = ROOT / "examples/demo"
    config = tmp_path / "kubeconfig"
    simulated = ("--simulate", str(demo / "machines.yaml"))

    def kubectl(*arguments: str) -> str:
        command = [str(KUBECTL), "--kubeconfig", str(config), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout

    def phases() -> dict[str, str]:
        items = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
        return {each["metadata"]["name"]: each["status"]["phase"] for each in items}

    def apply(*names: str) -> None:
        files = [argument for name in names for argument in ("-f", str(demo / f"{name}.yaml"))]
        kubectl("apply", *files)

    with running("up", *simulated, "--port", "0", "--kubeconfig", str(config), cwd=tmp_path) as up:
        wait(up)
        apply("1-one-gpu", "2-gpus-and-nic", "3-partition", "4-shared-gpu")
        eventually(lambda: phases() == dict.fromkeys(("notebook", "training", "tuning", "chat", "search"), "Running"))
        # Of equal pods, the one that started last is preempted. Start times are whole seconds.
        time.sleep(1.1)
        apply("5-first-available", "6-shared-claim")
        users = {"notebook", "training", "tuning", "chat", "search", "rendering", "server", "worker"}
        eventually(lambda: phases() == dict.fromkeys(users, "Running"))
        logs = {name: eventually(lambda name=name: kubectl("logs", name)) for name in users}
        assert logs["training"].count("NVIDIA H100") == 2
        assert "MIG 3g.40gb" in logs["tuning"]
        assert "20480MiB" in logs["chat"]
        assert logs["server"] == logs["worker"]
        apply("8-impossible")
        eventually(lambda: "gpus: needs 3" in kubectl("describe", "pod", "simulation"))
        command = [sys.executable, "-c", "from dray.cli import main; main()", "explain", "pod/simulation"]
        explained = subprocess.run([*command, "--kubeconfig", str(config)], capture_output=True, text=True, timeout=60)
        # No machine has three GPUs on one root: waiting does not help.
        assert explained.stdout.splitlines()[0].endswith("; ask for fewer, or leave out a constraint"), explained
        apply("9-preemption")
        eventually(lambda: phases() == {**dict.fromkeys(users - {"rendering"} | {"incident"}, "Running"), **PENDING})


def test_every_manifest_of_the_demo_and_the_lab_is_good() -> None:
    program = "from dray.cli import main; main()"
    demo = sorted(map(str, (ROOT / "examples/demo").glob("[1-9]-*.yaml")))
    ignored = ("--ignore", "missing-class")
    for paths in (("examples/lab", "examples/claims"), (*ignored, *demo)):
        command = [sys.executable, "-c", program, "lint", *paths]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert re.fullmatch(r"nothing found in \d+ objects\n", done.stdout), done.stdout
