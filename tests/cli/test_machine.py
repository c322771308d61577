"""The node of this machine, as `dray node` and `dray up --node` make it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli.machine import Machine, MachineOptions
from dray.testing.cluster import LocalCluster


@pytest.mark.parametrize("name", ["d", "d" * 80])
async def test_a_relative_root_is_made_absolute(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    async with LocalCluster() as cluster:
        machine = Machine(cluster.client, MachineOptions("worker", Path(name), drivers=()))
    root = machine.options.root
    assert root.is_absolute()
    # A long path is reached by a short link.
    assert root.resolve() == (tmp_path / name).resolve()
