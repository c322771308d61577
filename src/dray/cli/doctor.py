"""`dray doctor`: checks what dray needs of this machine, one line and a remedy each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.down import data_option
from dray.cli.output_formats import output_option, structured
from dray.process import up_state

if TYPE_CHECKING:
    from dray.cli.doctor_checks.check import Check


@click.command()
@data_option
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="NAME[:KEY=VALUE,...]",
    help="Settings of the gpu driver, as in `dray up --node --driver gpu:driverRoot=/run/nvidia/driver`.",
)
@click.option("--port", default=6443, show_default=True, help="Check that this port is free for the API server.")
@output_option("text", "json", "yaml")
def doctor(data: Path | None, drivers: tuple[str, ...], port: int, output: str) -> None:
    """Check what dray needs of this machine, and print a remedy for each problem.

    Checks the NVIDIA driver, device files and modes of GPUs, TPUs, control groups, namespaces, limits, podman, disk,
    clock, ports and running clusters. It changes nothing. A warning is a disadvantage; an error means that something
    does not work.

    \b
    Examples:
      dray doctor
      dray doctor -o json | jq '.checks[] | select(.level != "ok")'
      dray doctor --driver gpu:driverRoot=/run/nvidia/driver --data /var/lib/dray

    Exit status: 0 no errors, 1 at least one error, 2 the command line is wrong.
    """
    from dray.cli.doctor_checks.check import Level

    found = _checks(data or up_state.default_data(), drivers, port)
    failed = any(check.level == Level.ERROR for check in found)
    if output == "text":
        click.echo(_text(found))
    else:
        document = {"ok": not failed, "checks": [{**asdict(check), "level": str(check.level)} for check in found]}
        click.echo(structured(document, output), nl=False)
    sys.exit(1 if failed else 0)


def _checks(data: Path, drivers: Sequence[str], port: int) -> list[Check]:
    from dray.cli.doctor_checks.accelerators import accelerator_checks
    from dray.cli.doctor_checks.check import checked
    from dray.cli.doctor_checks.containers import container_checks
    from dray.cli.doctor_checks.system import system_checks
    from dray.cli.node_drivers import ChosenDriver, check_driver

    settings: dict[str, str] = {}
    for chosen in map(ChosenDriver.parse, drivers):
        if chosen.name != "gpu":
            raise click.UsageError(f"--driver {chosen.name}: only the gpu driver has settings that are checked")
        check_driver(chosen)
        settings.update(chosen.settings)
    return [*accelerator_checks(settings), *system_checks(data, port), *checked("podman", container_checks)]


def _text(checks: Sequence[Check]) -> str:
    width = max(len(check.name) for check in checks)
    lines = [
        f"{check.level:<8} {check.name:<{width}}  {check.message}{f'; remedy: {check.remedy}' if check.remedy else ''}"
        for check in checks
    ]
    counted = {level: sum(check.level == level for check in checks) for level in ("error", "warning")}
    said = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counted.items() if count)
    return "\n".join([*lines, said or "no problems found"])
