"""A machine with GPUs for `dray up --node`: a library with NVML's symbols and device files stand in for them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import DRAY, PATIENCE
from tests.drivers.gpu.machines import GpuMachine

ZERO = os.makedev(1, 5)


class Box:
    """`options` are those of the processes that it starts, for another user; `program` is how that user starts dray."""

    def __init__(
        self,
        folder: Path,
        machine: GpuMachine,
        *,
        program: tuple[str, ...] = DRAY,
        options: dict[str, Any] | None = None,
        **settings: str,
    ) -> None:
        self.folder = folder
        self.machine = machine
        self.dev = machine.root / "host/dev"
        self._program = program
        self._options = {"env": {"PATH": os.environ["PATH"]}, **(options or {})}
        for path in self.dev.iterdir():
            path.unlink()
            try:
                os.mknod(path, stat.S_IFCHR | 0o666, ZERO)
                path.chmod(0o666)
            except OSError:
                pytest.skip("this root may make no device files")
        text = ",".join(f"{key}={value}" for key, value in machine.settings(**settings).items())
        self.driver = ("--driver", f"gpu:{text}")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {**self._options["env"], "KUBECONFIG": str(self.folder / "dray.kubeconfig")}
        options = {**self._options, "env": environment}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self._program, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True, **options
        )

    def opened(self, dev: Path | None = None) -> str:
        """Returns a script that prints the numbers of the GPUs whose device files it can open, and their UUIDs."""
        numbers = " ".join(str(gpu.minor) for gpu in self.machine.gpus)
        trial = f"head -c 1 {dev or self.dev}/nvidia$n >/dev/null 2>&1 && echo opened $n"
        return f"for n in {numbers}; do {trial}; done; echo $CUDA_VISIBLE_DEVICES"

    def hold(self, *arguments: str, dev: Path | None = None) -> list[subprocess.Popen[str]]:
        """Starts two `dray run --gpu 1` and returns them once both have a GPU. They wait for a line of input."""
        run = ("run", "--gpu", "1", "-i", *arguments)
        jobs = [self.start(*run, "--name", name, "--", "sh", "-c", f"read go; {self.opened(dev)}") for name in "ab"]
        for job in jobs:
            assert job.stderr is not None
            assert "on node" in (line := job.stderr.readline()), line + job.stderr.read()
        return jobs

    def release(self, jobs: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
        """Returns the only GPU that each of the jobs can open, by number and UUID."""
        ended = [(*job.communicate("go\n", timeout=PATIENCE), job.returncode) for job in jobs]
        found = []
        for out, err, status in ended:
            assert status == 0, err
            *opened, uuid = out.splitlines()
            assert len(opened) == 1, out
            found.append((int(opened[0].removeprefix("opened ")), uuid))
        return sorted(found)

    def utilization(self) -> dict[str, tuple[int | None, int | None]]:
        """Returns percent and memory in use of each GPU that has a report, as `dray devices` shows them."""
        out, _ = self.start("devices", "--driver", "gpu.nvidia.com", "-o", "json").communicate(timeout=PATIENCE)
        reports = {each["device"]: each["utilization"] for each in json.loads(out)}
        return {name: (each.get("percent"), each.get("memoryUsedBytes")) for name, each in reports.items() if each}
