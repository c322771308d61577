"""`dray service`: a cluster that systemd starts with the machine, and starts again if it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click

from dray.cli.absolute_path import AbsolutePath
from dray.cli.service_unit import MARK, NAME, ServiceUnit
from dray.process import up_state

_RUNNING_SYSTEMD: Final = Path("/run/systemd/system")
_FORBIDDEN: Final = ("--detach", "-d", "--data")
Command = TypeVar("Command", bound=Any)


def _unit_options(command: Command) -> Command:
    for option in (
        click.option("--name", default="dray", show_default=True, help="Name of the service."),
        click.option("--user", "for_user", is_flag=True, help="Install for this user only, without root."),
    ):
        command = option(command)
    return command


@click.group()
def service() -> None:
    """Let systemd run a cluster: it starts with the machine, and again if it fails.

    \b
    Examples:
      dray service install --data /var/lib/dray
      dray service install --user -- --node --runtime process --driver gpu:DynamicMIG=true
      dray service status
      dray service remove
    """


@service.command(context_settings={"ignore_unknown_options": True})
@_unit_options
@click.option(
    "--data",
    type=AbsolutePath(file_okay=False),
    help="Data directory. Default: /var/lib/dray, with --user ~/.local/share/dray.",
)
@click.option("--no-start", is_flag=True, help="Write the unit, but do not start it.")
@click.argument("up_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF dray up]")
def install(name: str, for_user: bool, data: Path | None, no_start: bool, up_options: tuple[str, ...]) -> None:
    """Write a systemd unit for a cluster, and start it.

    The unit runs `dray up --node --data DIR`. Options of `dray up` follow after --; without any, this machine is a node
    (--node). If systemd does not run here, the unit is written and the commands to run are printed. Pods keep running
    while the service restarts.

    \b
    Examples:
      dray service install
      dray service install --data /var/lib/dray -- --node --runtime podman --bind 0.0.0.0

    Exit status: 0 installed, 2 not.
    """
    unit = _unit(name, for_user)
    _check_rights(unit)
    options = up_options or ("--node",)
    _check_options(options)
    place = (data or (up_state.default_data() if for_user else Path("/var/lib/dray"))).absolute()
    if unit.path.exists() and MARK not in unit.path.read_text():
        _fail(f"{unit.path} exists and is not dray's; choose another --name")
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        unit.path.write_text(unit.text(place, options))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")
    click.echo(f"wrote {unit.path}")
    commands = [unit.systemctl("daemon-reload"), unit.systemctl("enable", unit.name)]
    commands.append(unit.systemctl("restart", unit.name))
    if for_user:
        commands.append(["loginctl", "enable-linger", str(os.environ.get("USER") or os.geteuid())])
    _run(commands, only_print=no_start)
    click.echo(f"export KUBECONFIG={place / 'kubeconfig'}")


@service.command()
@_unit_options
def remove(name: str, for_user: bool) -> None:
    """Stop the service and delete its unit. The data directory stays.

    \b
    Examples:
      dray service remove

    Exit status: 0 removed, 2 not.
    """
    unit = _unit(name, for_user)
    _check_rights(unit)
    if not unit.path.exists():
        _fail(f"{unit.path} not found")
    if MARK not in unit.path.read_text():
        _fail(f"{unit.path} was not written by dray service install")
    _run([unit.systemctl("disable", "--now", unit.name)], only_print=False)
    unit.path.unlink()
    _run([unit.systemctl("daemon-reload")], only_print=False)
    click.echo(f"removed {unit.path}; pods of this machine keep running, dray down --pods ends them")


@service.command()
@_unit_options
def status(name: str, for_user: bool) -> None:
    """Show whether the service is installed, enabled and running.

    \b
    Examples:
      dray service status
      dray service status --user

    Exit status: 0 running, 1 installed and not running, 2 not installed.
    """
    unit = _unit(name, for_user)
    if not unit.path.exists():
        click.echo(f"{unit.path} not found; dray service install writes it")
        sys.exit(2)
    if not _has_systemd():
        click.echo(f"{unit.path}: installed; systemd does not run here")
        sys.exit(1)
    active, enabled = (_asked(unit.systemctl(question, unit.name)) for question in ("is-active", "is-enabled"))
    click.echo(f"{unit.path}: {enabled}, {active}")
    sys.exit(0 if active == "active" else 1)


def _unit(name: str, for_user: bool) -> ServiceUnit:
    if not NAME.fullmatch(name):
        raise click.UsageError(f"--name {name!r}: use letters, digits, dots, dashes and underscores")
    return ServiceUnit(name.removesuffix(".service"), for_user)


def _check_rights(unit: ServiceUnit) -> None:
    if not unit.for_user and os.geteuid() != 0:
        _fail("a service of the machine needs root; run this as root, or use --user")


def _check_options(options: tuple[str, ...]) -> None:
    """Ends the command for options that `dray up` does not take, before systemd tries them again and again."""
    from dray.cli.up import up

    for word in options:
        if word.partition("=")[0] in _FORBIDDEN:
            raise click.UsageError(f"{word}: give --data before --, and leave --detach out: systemd keeps it running")
    up.make_context("dray up", list(options))


def _has_systemd() -> bool:
    return _RUNNING_SYSTEMD.is_dir() and shutil.which("systemctl") is not None


def _run(commands: list[list[str]], *, only_print: bool) -> None:
    """Runs commands, or prints them where systemd does not run. A command that fails ends this one."""
    if only_print or not _has_systemd():
        why = "to start it, run" if only_print else "systemd does not run here; where it does, run"
        click.echo(f"{why}: {' && '.join(' '.join(words) for words in commands)}")
        return
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            _fail(f"{' '.join(command)}: {done.stderr.strip() or f'status {done.returncode}'}")


def _asked(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(2)
