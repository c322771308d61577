"""The option --queue-usage: how far the past counts for the shares of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dray.scheduling.quota.usage_decay import UsageOptions


def usage_options(value: str) -> UsageOptions:
    """WINDOW with half-life=DURATION, k=NUMBER and tumbling after it, with commas between; raises BadParameter."""
    from dray.scheduling.quota.kai.queue import seconds
    from dray.scheduling.quota.usage_decay import UsageOptions

    window, *others = value.split(",")
    found: dict[str, Any] = {"window": seconds(window)}
    for setting in others:
        name, _, said = setting.partition("=")
        if name == "half-life":
            found["half_life"] = seconds(said)
        elif name == "k":
            found["k"] = _number(said)
        elif setting == "tumbling":
            found["tumbling"] = True
        else:
            raise click.BadParameter(f"{setting!r} is none of half-life=DURATION, k=NUMBER, tumbling")
    for name, number in found.items():
        least = 0 if name == "k" else 1
        if number is None or number < least:
            raise click.BadParameter(f"{value!r}: write it as in 168h,half-life=24h,k=1")
    return UsageOptions(**found)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


option = click.option(
    "--queue-usage",
    default=None,
    metavar="WINDOW",
    callback=lambda _, __, value: usage_options(value) if value is not None else None,
    help="Include past usage in fair shares, as in 168h,half-life=24h. Off by default.",
)
