"""Reports of runs: tables for people, a document for programs, and plots. Policies stand side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import mean, stdev
from typing import Any, Final

from dray.drawing import svg
from dray.drawing.charts import Chart, Series
from dray.replay.runs import Run, Sample, size_order, wait_figures, waits_by

VERSION: Final = "dray.replay/v1"
"""The version of the document. Members may be added to it."""
_GAP: Final = 12
Table = list[list[str]]
"""Rows of cells, the first of them titles."""


def by_policy(runs: Sequence[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.policy, []).append(run)
    return found


def tables(runs: Sequence[Run], *, timed: bool) -> Iterator[Table]:
    """The figures of each policy, then refusals by reason, and in virtual time waiting times by size and queue."""
    yield list(rows(runs, timed=timed))
    groups = by_policy(runs)
    if any(run.reasons for run in runs):
        yield _counts("REFUSED BECAUSE OF", groups, lambda run: run.reasons)
    if timed and any(wait.seconds for run in runs for wait in run.waits):
        yield _wait_table("WAIT BY SIZE", groups, "size")
        if any(wait.queue for run in runs for wait in run.waits):
            yield _wait_table("WAIT BY QUEUE", groups, "queue")


def rows(runs: Sequence[Run], *, timed: bool) -> Iterator[list[str]]:
    """A line of titles, then a line for each policy."""
    evicted = any(run.evictions for run in runs)
    titles = ["POLICY", "RUNS", "ALLOCATED", "DEVIATION", "FRAGMENTED", "WHOLE FREE", "PLACED", "REFUSED"]
    titles += [*(["EVICTED"] if evicted else []), "POWER"]
    yield [*titles, "MEDIAN WAIT", "95 % WAIT"] if timed else titles
    for policy, group in by_policy(runs).items():
        percents = [run.percent for run in group]
        row = [
            policy,
            str(len(group)),
            f"{mean(percents):.2f} %",
            f"{stdev(percents):.2f}" if len(group) > 1 else "-",
            f"{mean(run.figures.fragmented for run in group):.1f} %",
            f"{mean(run.figures.whole_free for run in group):.1f}",
            f"{mean(run.placed for run in group):.0f}",
            f"{mean(run.refused.total() for run in group):.0f}",
            *([f"{mean(run.evictions for run in group):.0f}"] if evicted else []),
            f"{mean(run.watts for run in group) / 1000:.1f} kW",
        ]
        if timed:
            row += _seconds(wait_figures(wait.seconds for run in group for wait in run.waits))
        yield row


def _counts(title: str, groups: dict[str, list[Run]], counts: Callable[[Run], Counter[str]]) -> Table:
    """The mean of the counts of all runs of a policy."""
    totals = {policy: sum(map(counts, group), Counter[str]()) for policy, group in groups.items()}
    names = sorted({name for total in totals.values() for name in total}, key=lambda name: -_most(totals, name))
    means = [[f"{totals[policy][name] / len(group):.0f}" for policy, group in groups.items()] for name in names]
    return [[title, *groups], *([name, *row] for name, row in zip(names, means, strict=True))]


def _most(totals: dict[str, Counter[str]], name: str) -> int:
    return max(total[name] for total in totals.values())


def _wait_table(title: str, groups: dict[str, list[Run]], member: str) -> Table:
    found = {
        policy: waits_by([wait for run in group for wait in run.waits], member) for policy, group in groups.items()
    }
    names = sorted({name for waits in found.values() for name in waits}, key=size_order)
    table = [[title, *(f"{policy}: {what}" for policy in groups for what in ("median", "95 %"))]]
    for name in names:
        cells = [cell for policy in groups for cell in _seconds(found[policy].get(name))]
        table.append([name or "(none)", *cells])
    return table


def _seconds(figures: tuple[float, float] | None) -> list[str]:
    return [f"{each:.0f} s" for each in figures] if figures is not None else ["-", "-"]


# For programs


def document(runs: Sequence[Run], *, timed: bool) -> dict[str, Any]:
    return {"version": VERSION, "virtualTime": timed, "runs": [_run(run, timed) for run in runs]}


def _run(run: Run, timed: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "policy": run.policy,
        "seed": run.seed,
        "allocatedPercent": round(run.percent, 4),
        "requestedPercent": round(100 * run.requested / run.units, 4) if run.units else 0,
        "acceptedPercent": round(100 * run.accepted / run.units, 4) if run.units else 0,
        "fragmentedPercent": round(run.figures.fragmented, 4),
        "wholeFree": round(run.figures.whole_free, 3),
        "watts": round(run.watts),
        "placed": run.placed,
        "refused": run.refused.total(),
        "refusedBySize": {size: run.refused[size] for size in sorted(run.refused, key=size_order)},
        "refusedByReason": dict(run.reasons.most_common()),
        "evictions": run.evictions,
        "curve": [[round(each.x, 3), round(each.allocated, 3)] for each in run.curve],
        "fragmentedCurve": [[round(each.x, 3), round(each.fragmented, 3)] for each in run.curve],
        "wattsCurve": [[round(each.x, 3), round(each.watts)] for each in run.curve],
    }
    if timed:
        found["waitSeconds"] = _wait_members(wait_figures(wait.seconds for wait in run.waits))
        for name, member in (("waitSecondsBySize", "size"), ("waitSecondsByQueue", "queue")):
            found[name] = {key: _wait_members(each) for key, each in waits_by(run.waits, member).items()}
    return found


def _wait_members(figures: tuple[float, float]) -> dict[str, float]:
    return {"median": figures[0], "p95": figures[1]}


# Plots


def plot(runs: Sequence[Run], *, timed: bool) -> str:
    """Allocation, fragmentation and power of the first run of each policy, as SVG."""
    first = {policy: group[0] for policy, group in by_policy(runs).items()}
    x_title = "time in hours" if timed else "requested devices in percent"

    def points(run: Run, scale: float, value: Callable[[Sample], float]) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        for each in run.curve:
            if timed and found:
                # Between two events nothing changes.
                found.append((each.x / scale, found[-1][1]))
            found.append((each.x / scale, value(each)))
        return found

    def chart(title: str, value: Callable[[Sample], float], label: Callable[[Run], str], top: float | None) -> Chart:
        scale = 3600 if timed else 1
        return Chart(
            title,
            x_title,
            [Series(f"{policy}: {label(run)}", points(run, scale, value)) for policy, run in first.items()],
            top,
        )

    charts = (
        chart("Allocated devices in percent", lambda each: each.allocated, lambda run: f"{run.percent:.2f} %", 100),
        chart(
            "Free devices that are fragmented, in percent",
            lambda each: each.fragmented,
            lambda run: f"{run.figures.fragmented:.1f} %",
            100,
        ),
        chart("Power in kW", lambda each: each.watts / 1000, lambda run: f"{run.watts / 1000:.1f} kW", None),
    )
    boxes = [each.box() for each in charts]
    parts = [box.at(_GAP, _GAP + number * (box.height + _GAP)) for number, box in enumerate(boxes)]
    height = sum(box.height + _GAP for box in boxes) + _GAP
    return svg.document(boxes[0].width + 2 * _GAP, height, parts)
