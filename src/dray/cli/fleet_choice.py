"""A fleet as the command line names it; what is wrong with it is one line and status 2."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from dray.cli.reports import one_line

if TYPE_CHECKING:
    from dray.fleet.choice import Chosen


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
