"""A fleet as the command line names it; what is wrong with it is one line and status 2."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from dray.answers.one_line import one_line

if TYPE_CHECKING:
    from dray.fleet.choice import Chosen
    from dray.fleet.machine import Machine

_MOST_AGENTS: Final = 16


def chosen_fleet(choices: tuple[str, ...], seed: int | None) -> Chosen:
    from dray.fleet.choice import ChoiceError, choose
    from dray.yaml.text import ManifestError

    try:
        return choose(choices, seed=seed)
    except ChoiceError as error:
        click.echo(f"error: {error}", err=True)
    except ManifestError as error:
        click.echo(one_line(str(error)), err=True)
    sys.exit(2)


def chosen_machines(choices: tuple[str, ...]) -> tuple[Machine, ...]:
    """Returns the machines for --simulate. Exits if there are too many: each gets an agent that runs its pods."""
    machines = chosen_fleet(choices, None).machines
    if len(machines) > _MOST_AGENTS:
        click.echo(
            f"error: --simulate runs an agent for each of at most {_MOST_AGENTS} machines, not {len(machines)}; "
            "use --fleet for more; its pods are simulated",
            err=True,
        )
        sys.exit(2)
    if any(machine.is_slice_host for machine in machines):
        click.echo("error: slices of TPUs over several machines are for --fleet; leave :slice-… out", err=True)
        sys.exit(2)
    return machines
