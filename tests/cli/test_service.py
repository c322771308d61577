"""`dray service`: the unit that systemd gets, checked by systemd itself where it is installed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dray.cli import service as service_command
from dray.cli import service_unit

Dray = Callable[..., Result]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """systemd's directories are in a folder of the test, and systemd does not run."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setattr(service_unit, "SYSTEM", tmp_path / "system")
    monkeypatch.setattr(service_command, "_RUNNING_SYSTEMD", tmp_path / "none")
    return tmp_path


def values(unit: Path) -> dict[str, str]:
    lines = [line for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_a_service_of_the_user(run: Dray, places: Path) -> None:
    result = run("service", "install", "--user")
    unit = places / "config/systemd/user/dray.service"
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == f"wrote {unit}"
    assert "systemctl --user daemon-reload && systemctl --user enable dray" in result.stdout
    found = values(unit)
    program, rest = found["ExecStart"].split(" ", 1)
    assert rest == f"up --data {places}/share/dray --node"
    assert os.access(program, os.X_OK)
    assert found["WantedBy"] == "default.target"
    # Pods are in the control group of the service and survive a restart of it.
    assert found["KillMode"] == "process"
    assert stat.S_IMODE((places / "share/dray").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_service_of_the_machine_with_options(run: Dray, places: Path) -> None:
    options = ("--node", "--runtime", "podman", "--driver", "gpu:DynamicMIG=true", "--bind", "0.0.0.0")
    result = run("service", "install", "--name", "lab", "--data", str(places / "my lab"), "--", *options)
    assert result.exit_code == 0, result.output
    found = values(places / "system/lab.service")
    assert found["ExecStart"].endswith(f'up --data "{places}/my lab" {" ".join(options)}')
    assert found["WantedBy"] == "multi-user.target"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(run: Dray, places: Path) -> None:
    data = places / 'odd $HOME %h "name"'
    assert run("service", "install", "--user", "--data", str(data), "--", "--node").exit_code == 0
    unit = places / "config/systemd/user/dray.service"
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    about = [line for line in done.stderr.splitlines() if "dray.service" in line]
    assert about == []


def test_mistakes_in_options_are_found_before_systemd_tries_them(run: Dray, places: Path) -> None:
    for options in (("--nodes",), ("--runtime", "docker"), ("--detach",), ("--data", "x")):
        result = run("service", "install", "--user", "--", *options)
        assert result.exit_code == 2, result.output
    assert not (places / "config").exists()
    assert run("service", "install", "--user", "--name", "../x").exit_code == 2


def test_status_and_remove(run: Dray, places: Path) -> None:
    assert run("service", "status", "--user").exit_code == 2
    assert "not found" in run("service", "remove", "--user").stderr
    run("service", "install", "--user")
    status = run("service", "status", "--user")
    assert (status.exit_code, "installed; systemd does not run here" in status.stdout) == (1, True)
    removed = run("service", "remove", "--user")
    assert removed.exit_code == 0, removed.output
    assert not (places / "config/systemd/user/dray.service").exists()


def test_units_of_others_are_left_alone(run: Dray, places: Path) -> None:
    unit = places / "config/systemd/user/dray.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert "is not dray's" in run("service", "install", "--user").stderr
    assert "was not written by" in run("service", "remove", "--user").stderr
    assert unit.exists()


def test_with_systemd_the_commands_are_run(run: Dray, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program named systemctl stands in for systemd's."""
    (places / "bin").mkdir()
    for name in ("systemctl", "loginctl"):
        program = places / "bin" / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {places}/calls\ncase "$*" in *is-*) echo active;; esac\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{places / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(service_command, "_RUNNING_SYSTEMD", places)
    assert run("service", "install", "--user").exit_code == 0
    calls = (places / "calls").read_text().splitlines()
    assert calls[:3] == [
        "systemctl --user daemon-reload",
        "systemctl --user enable dray",
        "systemctl --user restart dray",
    ]
    assert calls[3].startswith("loginctl enable-linger ")
    assert run("service", "status", "--user").exit_code == 0
    assert run("service", "remove", "--user").exit_code == 0
    assert "systemctl --user disable --now dray" in (places / "calls").read_text()
