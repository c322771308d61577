"""The option `--policy`: which nodes and devices to prefer. All commands that place pods have it."""

from __future__ import annotations

import click

POLICY_NAMES = ("kubernetes", "pack", "pack,power", "spread")
REPLAY_POLICIES = (*POLICY_NAMES, "first-fit")
"""Policies that can be played. `first-fit` is there to be compared with others."""

policy_option = click.option(
    "--policy",
    type=click.Choice(POLICY_NAMES),
    default="kubernetes",
    show_default=True,
    help="Nodes and devices to prefer. kubernetes: emptier nodes, first devices that fit. pack: least devices wasted. "
    "pack,power: also little power. "
    "spread: nodes with the most devices free.",
)
