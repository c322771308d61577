"""Daemons of MPS: how their processes are found."""

import os
import subprocess
from contextlib import ExitStack

from dray.drivers.gpu.mps import PIPE_DIRECTORY, MpsDaemons

LOOKS = 2000


def test_a_daemon_runs_while_it_executes_a_program(tmp_path):
    """A process has no environment for a moment whenever it executes a program; this one does nothing else."""
    directory = tmp_path / "mps/claim-1"
    (directory / "log").mkdir(parents=True)
    program = tmp_path / "again"
    program.write_text('#!/bin/sh\nexec "$0"\n')
    program.chmod(0o755)
    with subprocess.Popen([program], env={**os.environ, PIPE_DIRECTORY: str(directory / "pipe")}) as process:
        try:
            (directory / "log/startup.log").write_text(str(process.pid))
            daemons = MpsDaemons(None, None, tmp_path, "host")
            assert all(daemons.is_running("claim-1") for _ in range(LOOKS))
        finally:
            process.kill()
    assert not daemons.is_running("claim-1")


def test_processes_without_an_environment_are_read_again_together(tmp_path, monkeypatch):
    """Containers of a node have hundreds of them; a pause for each made the end of a daemon take minutes."""
    pauses = []
    monkeypatch.setattr("dray.drivers.gpu.mps.time.sleep", pauses.append)
    (tmp_path / "mps/claim-1/log").mkdir(parents=True)
    with ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(["/bin/sleep", "999"], env={})) for _ in range(20)]
        stack.callback(lambda: [process.kill() for process in processes])
        (tmp_path / "mps/claim-1/log/startup.log").write_text(" ".join(str(process.pid) for process in processes))
        assert not MpsDaemons(None, None, tmp_path, "host").is_running("claim-1")
    assert len(pauses) < len(processes)
