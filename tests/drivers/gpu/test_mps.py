"""Daemons of MPS: how their processes are found."""

import os
import subprocess

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
