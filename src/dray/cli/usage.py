"""`dray usage`: hours of devices that were requested, allocated and used, by user, namespace or queue."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dray.answers.views.device_facts import table
from dray.api.objects import Object, mapping
from dray.api.times import text_of
from dray.cli import durations
from dray.cli.cluster import Cluster, Where, ask, reaching
from dray.cli.output_formats import output_option, structured

if TYPE_CHECKING:
    from dray.controllers.device_usage.totals import Consumer, Seconds

_DAYS: Final = re.compile(r"(\d{1,4})d")
_HOUR: Final = 3600
_MOST_BARS: Final = 60
_PARTS: Final = ("reported as used", "allocated, not reported as used", "requested, not allocated")
_BY: Final = ("user", "namespace", "queue")


def _since(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Reads 7d, 36h, or a date; returns seconds since 1970."""
    now = time.time()
    if days := _DAYS.fullmatch(value):
        return now - int(days[1]) * 24 * _HOUR
    try:
        return datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()
    except ValueError:
        pass
    try:
        return now - (durations.seconds(ctx, param, value) or 0.0)
    except click.BadParameter:
        raise click.BadParameter(f"{value!r} is neither a duration like 7d or 36h nor a date like 2026-11-01") from None


@click.command()
@click.option(
    "--since",
    default="7d",
    show_default=True,
    metavar="DURATION|DATE",
    callback=_since,
    help="Count the hours since then: 36h, 7d, or a date like 2026-11-01 in UTC.",
)
@click.option("--by", type=click.Choice(_BY), default="namespace", show_default=True, help="Add up the hours by this.")
@click.option(
    "--class", "classes", multiple=True, metavar="NAME", help="Show devices of this DeviceClass only; repeatable."
)
@output_option("table", "json", "yaml", "svg")
@reaching
def usage(since: float, by: str, classes: tuple[str, ...], output: str, kubeconfig: Path | None, context: str) -> None:
    """Show the device hours that users, namespaces or queues have requested, been allocated, and used.

    REQUESTED includes the time that pods waited for devices. USED is the allocated time multiplied by the utilization
    that the driver reported; it is "-" if the driver reports none. MEASURED is how much of the allocated time has a
    report. Totals are kept by hour for two days and by day after that, in UTC. Whole hours and days are counted.

    \b
    Examples:
      dray usage
      dray usage --since 30d --by user
      dray usage --since 2026-11-01 --by queue --class gpu.nvidia.com -o json
      dray usage --by user -o svg > usage.svg

    Exit status: 0 printed, 1 the server refused or has no totals, 2 the server cannot be reached.
    """

    async def work(cluster: Cluster) -> int:
        from dray.controllers.device_usage.totals import Totals

        totals = Totals.parse(await _stored(cluster))
        found = _summed(totals.since(since), by, classes)
        start = max(since, totals.first() or since)
        period = f"since {text_of(start)}, up to {text_of(totals.until or start)}"
        if output == "svg":
            click.echo(_drawn(f"Hours of devices {period}", found), nl=False)
            return 0
        if output != "table":
            click.echo(structured([_document(by, key, each) for key, each in found], output), nl=False)
            return 0
        columns = (by.capitalize(), "Class", "Requested", "Allocated", "Used", "Measured")
        for line in table(columns, [_row(*key, each) for key, each in found]) or ["no device was requested"]:
            click.echo(line)
        click.echo(f"hours of devices {period}", err=True)
        return 0

    ask(Where(kubeconfig, context, ""), work)


async def _stored(cluster: Cluster) -> Mapping[str, str]:
    from dray.api.catalogue import built_in
    from dray.client.errors import NotFound
    from dray.controllers.device_usage.totals import CONFIG_MAP, NAMESPACE

    try:
        found = await cluster.client.get(built_in("v1", "ConfigMap"), CONFIG_MAP, namespace=NAMESPACE)
    except NotFound:
        raise click.ClickException(
            f"ConfigMap {NAMESPACE}/{CONFIG_MAP} not found: no device was requested yet, or the controller "
            "device-usage does not run; it writes the totals once a minute"
        ) from None
    return mapping(found.get("data"))


def _summed(
    totals: Mapping[Consumer, Seconds], by: str, classes: tuple[str, ...]
) -> list[tuple[tuple[str, str], Seconds]]:
    """Sums up by the key and the class, those with the most allocated time first."""
    from dray.controllers.device_usage.totals import Seconds

    found: dict[tuple[str, str], Seconds] = {}
    for consumer, seconds in totals.items():
        if not classes or consumer.device_class in classes:
            key = str(getattr(consumer, by)), consumer.device_class
            found.setdefault(key, Seconds()).add(seconds)
    return sorted(found.items(), key=lambda each: (-each[1].allocated, -each[1].requested, each[0]))


def _row(name: str, device_class: str, seconds: Seconds) -> tuple[str, ...]:
    used = _hours(seconds.used) if seconds.measured else "-"
    measured = f"{round(100 * seconds.measured / seconds.allocated)}%" if seconds.allocated else "-"
    return name or "-", device_class or "-", _hours(seconds.requested), _hours(seconds.allocated), used, measured


def _drawn(title: str, found: Sequence[tuple[tuple[str, str], Seconds]]) -> str:
    """A bar for each row. What was used is part of what was allocated, and that of what was requested."""
    from dray.drawing import svg
    from dray.drawing.bars import Bar, BarChart

    def bar(name: str, device_class: str, seconds: Seconds) -> Bar:
        parts = (seconds.used, seconds.allocated - seconds.used, seconds.requested - seconds.allocated)
        figures = f"{_hours(seconds.allocated)} of {_hours(seconds.requested)} h"
        label = " ".join(filter(None, (name or "-", device_class)))
        return Bar(label, [max(0.0, part) / _HOUR for part in parts], figures)

    bars = [bar(*key, seconds) for key, seconds in found[:_MOST_BARS]]
    left_off = f" (the first {_MOST_BARS} of {len(found)})" if len(found) > _MOST_BARS else ""
    box = BarChart(f"{title}{left_off}", _PARTS, bars).box()
    return svg.document(box.width, box.height, [box.at(0, 0)])


def _hours(seconds: float) -> str:
    return f"{seconds / _HOUR:.2f}"


def _document(by: str, key: tuple[str, str], seconds: Seconds) -> Object:
    return {
        by: key[0],
        "class": key[1],
        "requestedHours": round(seconds.requested / _HOUR, 4),
        "allocatedHours": round(seconds.allocated / _HOUR, 4),
        "measuredHours": round(seconds.measured / _HOUR, 4),
        "usedHours": round(seconds.used / _HOUR, 4),
    }
